"""Every problem that an import counts is explained in words, and in the documentation by name."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.importers import ImportReport
from otel_torchprof.importers.problems import PROBLEMS

ROOT = Path(__file__).parents[3]
SOURCES = ROOT / "src" / "otel_torchprof" / "importers"
DOCUMENTS = ("importing.md", "memory.md", "recording-format.md")


def documented(text: str) -> dict[str, bool]:
    """Names of problems in the first column of a table, and whether they stand in italics."""
    found: dict[str, bool] = {}
    for column in re.findall(r"^\| ([^|]*) \|", text, re.M):
        is_italic = column.startswith("*")
        found |= dict.fromkeys(re.findall(r"`([a-z_0-9]+)`", column), is_italic)
    return found


def test_what_importers_and_the_reader_count_is_explained() -> None:
    counted = {
        name
        for path in SOURCES.rglob("*.py")
        for name in re.findall(r'(?:add_problem\(\s*|problems\[)"(\w+)"', path.read_text("utf-8"))
    }
    reader = (ROOT / "native" / "core" / "problems.cpp").read_text("utf-8")
    counted |= set(re.findall(r'return "(\w+)";', reader))
    assert len(counted) > 50
    assert counted - set(PROBLEMS) == set()


def test_every_problem_is_documented_and_whether_it_matters() -> None:
    documents = {name: (ROOT / "docs" / name).read_text("utf-8") for name in DOCUMENTS}
    everywhere = "\n".join(documents.values())
    assert [name for name in PROBLEMS if f"`{name}`" not in everywhere] == []
    in_table = documented(documents["importing.md"])
    said = {name: is_italic for name, is_italic in in_table.items() if name in PROBLEMS}
    assert len(said) > 35
    assert said == {name: PROBLEMS[name].is_harmless for name in said}


def test_what_matters_is_a_warning_and_what_does_not_a_remark() -> None:
    report = ImportReport("chrome", notes=["Times count from the start."])
    report.add_problems({"crossing_slices": 1_234, "no_time": 2, "of_another_package": 1})
    assert report.warnings == ["no_time 2: events without a time; left out", "of_another_package 1"]
    assert report.remarks == [
        "Times count from the start.",
        "crossing_slices 1,234: events that begin within another and outlast it, as a scope outlasts the "
        "coroutine that began it; kept as they are: only the self times of the two overlap",
    ]
    assert report.harmful == {"no_time": 2, "of_another_package": 1}


@given(st.dictionaries(st.sampled_from([*PROBLEMS, "another"]), st.integers(1, 10**12)))
def test_each_problem_is_said_once(problems: dict[str, int]) -> None:
    report = ImportReport("chrome")
    report.add_problems(problems)
    lines = [*report.warnings, *report.remarks]
    said = {line.partition(" ")[0]: line.partition(" ")[2].partition(":")[0] for line in lines}
    assert len(lines) == len(problems)
    assert said == {name: f"{count:,}" for name, count in problems.items()}
