"""The modules in `otel-torchprof report` and `info`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_torchprof.cli import main as cli
from tests.support.module_recordings import nested_modules


@pytest.fixture
def tprof(tmp_path: Path) -> str:
    path = tmp_path / "modules.tprof"
    nested_modules(2, 1).save(path)
    return str(path)


def test_the_table_follows_that_of_the_operators(tprof: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", tprof]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = lines[lines.index("") + 1 :]
    assert [" ".join(line.split()) for line in table] == [
        "module class calls forward self parameters",
        "(root) Net 1 1.000 s 550.000 ms",
        "layers.0 Layer 1 150.000 ms 0 ns 12,345",
        "layers.0.part0 Part\\x1b[2J 1 150.000 ms 150.000 ms",
        "layers.1 Layer 1 300.000 ms 0 ns",
        "layers.1.part0 Part\\x1b[2J 1 300.000 ms 300.000 ms",
    ]
    assert [len(line) - len(line.lstrip()) for line in table] == [0, 0, 2, 4, 2, 4]


def test_the_limit_is_that_of_the_operators(tprof: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", tprof, "--limit", "2"]) == 0
    assert "... 3 more modules (--limit 0 shows all)" in capsys.readouterr().out


def test_as_json_they_have_whole_numbers(tprof: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", tprof, "--json"]) == 0
    modules = json.loads(capsys.readouterr().out)["modules"]
    assert [(module["path"], module["parent"], module["forward_ns"]) for module in modules[:2]] == [
        ("", -1, 1_000_000_000),
        ("layers.0", 0, 150_000_000),
    ]
    assert modules[1]["parameter_count"] == 12345


def test_info_says_how_many_are_described(tprof: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", tprof]) == 0
    assert "1 described: see the report" in capsys.readouterr().out
