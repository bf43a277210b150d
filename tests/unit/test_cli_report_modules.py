"""The modules in `otel-torchprof report` and `info`."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from otel_torchprof.analysis.modules import ModuleRow
from otel_torchprof.cli import main as cli
from otel_torchprof.cli.report_modules import module_table
from otel_torchprof.cli.text import OutputConsole
from tests.support.module_recordings import nested_modules
from tests.support.terminals import lines_of, use_terminal

ROW = ModuleRow(
    class_name="TransformerEncoderLayer",
    path="encoder.layers.11.feed_forward",
    parent=-1,
    depth=3,
    calls=1_234,
    training_calls=1_234,
    forward_ns=415_040_000_000,
    self_forward_ns=359_360_000_000,
    backward_ns=415_040_000_000,
    self_backward_ns=1,
    device_ns=123_456_789,
    self_device_ns=1,
    allocated_bytes=800 << 20,
    freed_bytes=0,
    parameter_count=4_701_389_522,
    parameter_bytes=0,
)


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


def test_without_any_path_classes_are_the_names(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("Net", "Linear")
    rows = [replace(ROW, path="", class_name=name, depth=depth) for depth, name in enumerate(names)]
    terminal = use_terminal(monkeypatch, 200)
    OutputConsole().print(module_table(rows))
    headings, *lines = lines_of(terminal)
    assert headings.split()[:2] == ["module", "calls"]
    assert [line.partition(" 1,234")[0].rstrip() for line in lines] == ["Net", "  Linear"]


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


@pytest.mark.parametrize(
    ("width", "headings", "left_out"),
    [
        (120, "module class calls forward self backward device allocated parameters", ""),
        (80, "module class calls forward backward device", "parameters, allocated, self"),
        (64, "module class calls forward device", "parameters, allocated, self, backward"),
        (50, "module calls forward device", "parameters, allocated, self, backward, class"),
        (40, "module forward device", "parameters, allocated, self, backward, class, calls"),
    ],
)
def test_the_table_has_room_in_a_terminal(
    width: int, headings: str, left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch, width)
    OutputConsole().print(module_table([ROW]))
    lines = lines_of(terminal)
    assert max(map(len, lines)) <= width
    assert " ".join(lines[0].split()) == headings
    assert " ".join(lines[2:]) == (f"(left out for want of room: {left_out})" if left_out else "")


def test_a_short_path_leaves_its_room_to_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(
        ROW, path="", depth=0, calls=0, training_calls=0, backward_ns=0, device_ns=43, allocated_bytes=0
    )
    terminal = use_terminal(monkeypatch, 80)
    OutputConsole().print(module_table([row, replace(row, path="head")]))
    headings, cells, _head = lines_of(terminal)
    assert headings.split() == ["module", "class", "calls", "forward", "self", "device", "parameters"]
    assert cells.startswith("(root)  Transf")
    assert len(cells) <= 80
