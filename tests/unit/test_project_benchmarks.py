"""The benchmark table: what counts as met, how pairs are measured, what is found."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest

from benchmarks.__main__ import find_benchmarks, make_table
from benchmarks.pairing import Paired, paired
from benchmarks.rows import Row, Target


@pytest.mark.parametrize(
    ("row", "ratio", "met"),
    [
        (Row("a", 65.0, "ns/op", "Kineto", 200.0, Target("at most", 0.4)), 0.325, True),
        (Row("a", 90.0, "ns/op", "Kineto", 200.0, Target("at most", 0.4)), 0.45, False),
        (Row("a", 2e6, "spans/s", "SDK", 5e4, Target("at least", 1.5e6, of="ours")), 40.0, True),
        (Row("a", 1e6, "spans/s", "SDK", 5e4, Target("at least", 1.5e6, of="ours")), 20.0, False),
        (Row("a", 48.0, "B/op", target=Target("at most", 64, of="ours")), None, True),
        (Row("a", 48.0, "B/op", "Kineto", 580.0), 48 / 580, None),
        (Row("a", 48.0, "B/op", target=Target("at most", 0.4)), None, None),
    ],
)
def test_a_target_is_met_or_not(row: Row, ratio: float | None, met: bool | None) -> None:
    assert (row.ratio, row.met) == (ratio, met)


def test_paired_runs_alternate_and_the_first_of_each_does_not_count() -> None:
    runs: list[str] = []
    figures = {"a": iter([1000.0, 3.0, 1.0, 2.0]), "b": iter([1000.0, 30.0, 10.0, 20.0])}

    def measure(which: str) -> float:
        runs.append(which)
        return next(figures[which])

    assert paired(lambda: measure("a"), lambda: measure("b"), repeats=3) == Paired(2.0, 20.0, (0.1, 0.1))
    assert "".join(runs) == "ababbaab"


def test_the_spread_of_a_ratio_is_that_of_its_pairs() -> None:
    a, b = iter([9.0, 10.0, 40.0, 20.0, 30.0, 50.0]), iter([9.0, 10.0, 10.0, 10.0, 10.0, 10.0])
    figures = paired(lambda: next(a), lambda: next(b), repeats=5)
    assert figures == Paired(30.0, 10.0, (2.0, 4.0))
    table = make_table([Row("a", 30.0, "ms", "b", 10.0, ratio_quartiles=figures.ratio_quartiles)])
    assert list(table.columns[5].cells) == ["3 x (2 to 4)"]


@pytest.mark.parametrize(("b", "quartiles"), [(4.0, (0.5, 0.5)), (0.0, None)])
def test_one_pair_has_one_ratio_and_a_pair_with_nothing_none(
    b: float, quartiles: tuple[float, float] | None
) -> None:
    found = paired(lambda: 2.0, lambda: b, repeats=1).ratio_quartiles
    assert found == quartiles if quartiles else all(map(isnan, found))


def test_a_module_that_defines_run_is_a_benchmark_and_is_not_imported_to_know(tmp_path: Path) -> None:
    (tmp_path / "fast.py").write_text("import no_such_module\ndef run(quick):\n    return []\n")
    (tmp_path / "shared.py").write_text("VALUE = 1\nclass A:\n    def run(self): ...\n")
    assert find_benchmarks(tmp_path) == ["fast"]
