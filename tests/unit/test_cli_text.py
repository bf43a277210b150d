"""What reaches a terminal: harmless names, readable numbers."""

from __future__ import annotations

import io
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from otel_torchprof.cli_text import (
    NameCell,
    OutputConsole,
    cell,
    duration,
    make_table,
    printable,
    shortened,
    size,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("aten::add", "aten::add"),
        ("Größe 層", "Größe 層"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("two\nlines\tand\rmore", "two\\x0alines\\x09and\\x0dmore"),
        ("\x9b2J", "\\x9b2J"),
        ("right\u202eto left", "right\\u202eto left"),
        ("a\u2028b", "a\\u2028b"),
        ("lone \ud800", "lone \\ud800"),
        ("tag \U000e0041", "tag \\U000e0041"),
    ],
)
def test_characters_that_steer_a_terminal_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text(st.characters(exclude_categories=())))
def test_what_is_shown_is_always_printable(text: str) -> None:
    assert printable(text).isprintable()


def test_a_name_is_never_read_as_markup() -> None:
    console = Console(file=io.StringIO(), width=80)
    console.print(cell("[bold]x[/bold] [link=file:///etc/passwd]y"))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue() == "[bold]x[/bold] [link=file:///etc/passwd]y\n"


@pytest.mark.parametrize(
    ("ns", "shown"),
    [
        (0, "0 ns"),
        (917, "917 ns"),
        (999.6, "1.000 us"),
        (12_346, "12.346 us"),
        (4_210_000, "4.210 ms"),
        (3_500_000_000, "3.500 s"),
    ],
)
def test_a_duration_has_the_unit_that_keeps_it_readable(ns: float, shown: str) -> None:
    assert duration(ns) == shown


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 << 20, "3.0 MiB"),
        (5 << 30, "5.0 GiB"),
        (1 << 41, "2048.0 GiB"),
    ],
)
def test_a_size_has_the_unit_that_keeps_it_readable(size_bytes: int, shown: str) -> None:
    assert size(size_bytes) == shown


def test_a_pipe_gets_no_blanks_that_only_fill_a_column(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("name")
    table.add_column("calls", justify="right")
    table.add_column("note")
    table.add_row("aten::add", "1", "")
    table.add_row("aten::addmm_out", "12", "a note")
    OutputConsole().print(table)
    assert capsys.readouterr().out == (
        "name             calls  note\naten::add            1\naten::addmm_out     12  a note\n"
    )


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("aten::add", 9, "aten::add"),
        ("aten::add", 8, "aten…add"),
        ("aten::add", 7, "ate…add"),
        ("aten::add", 1, "…"),
    ],
)
def test_a_name_that_is_too_long_loses_its_middle(text: str, width: int, shown: str) -> None:
    assert shortened(text, width) == shown


@given(st.text(st.characters(exclude_categories=())).map(printable), st.integers(1, 40))
def test_a_shortened_name_has_room(text: str, width: int) -> None:
    assert cell_len(shortened(text, width)) <= width
    assert shortened(text, max(cell_len(text), 1)) == text


NAMES = ["void at::native::" + "elementwise_kernel<" * 20 + ">(int)", "aten::add"]


class TerminalText(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


# The last is too narrow for the numbers: no column is cut.
@pytest.mark.parametrize(("width", "line_width"), [(200, 200), (80, 80), (60, 60), (20, 46)])
def test_in_a_terminal_names_give_way_and_numbers_do_not(
    width: int, line_width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = TerminalText()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    table = make_table(("name",), ("calls", "total", "self"))
    for name in NAMES:
        table.add_row(NameCell(name), "1,000", "123.456 ms", "12.345 ms")
    OutputConsole().print(table)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) == line_width
    assert lines[1].startswith("void at:")
    assert ">(int)  1,000  123.456 ms  12.345 ms" in lines[1]
    assert "…" in lines[1]
    assert "…" not in lines[2]


def test_a_pipe_gets_names_whole_up_to_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    table = make_table(("name",), ("calls",))
    for name in (*NAMES, "a" * 100_000):
        table.add_row(NameCell(name), "1")
    OutputConsole().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("  ")[0] == NAMES[0]
    assert max(map(len, lines)) < 1100
