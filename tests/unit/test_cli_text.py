"""What reaches a terminal: harmless names, readable numbers."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from otel_torchprof.cli.table import ReportTable
from otel_torchprof.cli.text import (
    NameCell,
    OutputConsole,
    cell,
    duration,
    printable,
    shortened,
    shortened_name,
    size,
)
from tests.support.terminals import lines_of, use_terminal


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


# The last is too narrow for the numbers: no column is cut.
@pytest.mark.parametrize(("width", "line_width"), [(200, 200), (80, 80), (60, 60), (20, 46)])
def test_in_a_terminal_names_give_way_and_numbers_do_not(
    width: int, line_width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch, width)
    table = ReportTable(("name",), ("calls", "total", "self"))
    for name in NAMES:
        table.add_row(NameCell(name), "1,000", "123.456 ms", "12.345 ms")
    OutputConsole().print(table)
    lines = lines_of(terminal)
    assert len(lines) == 3
    assert max(map(len, lines)) == line_width
    assert lines[1].startswith("void at:")
    assert ">(int)  1,000  123.456 ms  12.345 ms" in lines[1]
    assert "…" in lines[1]
    assert "…" not in lines[2]


def test_a_pipe_gets_names_whole_up_to_a_bound(capsys: pytest.CaptureFixture[str]) -> None:
    table = ReportTable(("name", "shapes"), ("calls",))
    shapes = str([[1, 2]] * 40)  # no name: in one line, and whole
    for name in ("b" * 100, *NAMES, "a" * 100_000):
        table.add_row(NameCell(name), cell(shapes), "1")
    OutputConsole().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" ")[0][:2] for line in lines] == ["na", "bb", "vo", "at", "aa"]
    assert lines[1].split("  ")[0] == "b" * 100
    assert [line.index(shapes) for line in lines[1:]] == [102] * 4
    assert lines[2].startswith("void at::native::elementwise_kernel")
    assert "…" in lines[2]
    assert lines[2].split("  ")[0].endswith(">(int)")


@pytest.mark.parametrize(
    ("name", "width", "shown"),
    [
        ("/home/me/project/train.py:7 in step", 40, "/home/me/project/train.py:7 in step"),
        ("/home/me/project/train.py:7 in step", 30, "…me/project/train.py:7 in step"),
        ("/home/me/project/train.py(7): step", 19, "…/train.py(7): step"),
        ("C:\\project\\train.py(7): step", 19, "…\\train.py(7): step"),
        ("/home/me/project/train.py:7 in a_long_name", 18, "train.py:…ong_name"),
        ("train.py(7): a_step_with_a_name", 20, "train.py(7…th_a_name"),
        ("void kernel<at::native::add>(int)", 20, "void kerne…add>(int)"),
    ],
)
def test_a_path_gives_up_folders_before_its_file_and_line(name: str, width: int, shown: str) -> None:
    assert shortened_name(name, width) == shown
    assert cell_len(shown) <= width


@pytest.mark.parametrize(
    ("width", "headings", "left_out"),
    [
        (80, "name calls total self mean", ""),
        (64, "name calls total self", "mean"),
        (50, "name calls self", "mean, total"),
    ],
)
def test_a_narrow_terminal_does_without_some_columns_and_says_so(
    width: int, headings: str, left_out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch, width)
    table = ReportTable(("name",), ("calls", "total", "self", "mean"), spare=("mean", "total"))
    table.add_row(NameCell(NAMES[0]), "1,000", "123.456 ms", "12.345 ms", "123.456 us")
    OutputConsole().print(table)
    lines = lines_of(terminal)
    assert " ".join(lines[0].split()) == headings
    assert lines[2:] == ([f"(left out for want of room: {left_out})"] if left_out else [])
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(
    ("width", "headings"),
    [
        (58, "name kind calls self share"),
        (50, "name calls self share"),
        (40, "name calls self"),
        (34, "name self"),
    ],
)
def test_names_are_shortened_before_the_last_columns_go(
    width: int, headings: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = use_terminal(monkeypatch, width)
    table = ReportTable(("name", "kind"), ("calls", "self", "share"), last=("kind", "share", "calls"))
    table.add_row(NameCell(NAMES[0]), NameCell("short"), "1,000,000", "12.345 ms", "12.3%")
    OutputConsole().print(table)
    lines = lines_of(terminal)
    assert " ".join(lines[0].split()) == headings
    assert max(map(len, lines)) <= width
    assert len(lines[1].split("  ")[0]) >= 16


def test_a_short_name_takes_no_more_than_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = use_terminal(monkeypatch, 20)
    table = ReportTable(("module",), ("calls",), last=("calls",))
    table.add_row(NameCell("(root)"), "123,456,789")
    OutputConsole().print(table)
    assert lines_of(terminal) == ["module        calls", "(root)  123,456,789"]
