"""How the command line writes to a terminal or a pipe: untrusted names made harmless, numbers with units."""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

# Wide enough that a table written to a pipe or a file is never folded or cut.
_PIPE_WIDTH = 4096
# What a name keeps where nothing narrower asks for less: templates and stacks may have any length.
_MAX_NAME_WIDTH = 1000
_GAP = 2  # between the columns of a table
MIN_NAME_WIDTH = 16  # below this a name says nothing: a terminal wraps the line rather
# The number of a line, as in `/home/me/train.py:7 in step` and `/home/me/train.py(7): step`.
_SOURCE_LINE = re.compile(r"\.py[:(]\d")


class OutputConsole(Console):
    """Standard output. A reader that went away is reported as BrokenPipeError, for `main` to deal with."""

    def __init__(self) -> None:
        super().__init__(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)

    def print(self, *objects: Any, **options: Any) -> None:
        """As `Console.print`, but numbers are never cut: a terminal too narrow for them wraps the line.

        What is read by a program has no blanks that only fill a column.
        """
        for table in objects:
            if isinstance(table, Table):
                _keep_whole(table, self.width)
        if self.is_terminal:
            super().print(*objects, **{"crop": False, **options})
            return
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))

    def on_broken_pipe(self) -> NoReturn:
        raise BrokenPipeError


def _keep_whole(table: Table, width: int) -> None:
    """Makes a table wider than `width` rather than cut a column that does not wrap, or lose one that does."""
    for column in table.columns:
        if column.no_wrap:
            column.min_width = max(cell_len(str(text)) for text in (column.header, *column.cells))
    least = sum(column.min_width or 1 for column in table.columns) + _GAP * (len(table.columns) - 1)
    if least > width:
        table.width = least


def printable(text: str) -> str:
    """`text` with every character that could steer a terminal or reorder a line shown as an escape.

    Covers C0 and C1 controls, DEL, bidirectional and other format characters, line and paragraph separators,
    and lone surrogates.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def cell(text: object) -> Text:
    """`text` for a table: printable, and never read as markup."""
    return Text(printable(str(text)))


def shortened(text: str, width: int) -> str:
    """`text` in at most `width` columns of a terminal: what is too long loses its middle."""
    if cell_len(text) <= width:
        return text
    head = width // 2
    tail = width - 1 - head
    return f"{set_cell_size(text, head)}…{set_cell_size(text[::-1], tail)[::-1]}"


def shortened_name(name: str, width: int) -> str:
    """As `shortened`, but a path in front loses folders first: its file and line tell more."""
    line = _SOURCE_LINE.search(name)
    folders = 0 if line is None else max(name.rfind(separator, 0, line.start()) for separator in "/\\") + 1
    if not folders or " " in name[:folders] or cell_len(name) <= width:
        return shortened(name, width)
    if cell_len(name[folders:]) >= width:
        return shortened(name[folders:], width)
    return f"…{set_cell_size(name[::-1], width - 1)[::-1]}"


class NameCell:
    """A name of any length in a table, as much of its two ends as there is room for."""

    def __init__(self, name: object) -> None:
        self._text = shortened(printable(str(name)), _MAX_NAME_WIDTH)

    def __str__(self) -> str:
        return self._text

    def __rich_measure__(self, _console: Console, _options: ConsoleOptions) -> Measurement:
        width = cell_len(self._text)
        return Measurement(min(width, MIN_NAME_WIDTH), width)

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(shortened_name(self._text, options.max_width), no_wrap=True, overflow="crop")


def duration(ns: float) -> str:
    """A duration in ns, in the unit that keeps it readable: `917 ns`, `12.346 us`, `4.210 ms`, `3.500 s`."""
    whole = round(ns)
    if abs(whole) < 1_000:
        return f"{whole} ns"
    if abs(whole) < 1_000_000:
        return f"{whole / 1_000:.3f} us"
    if abs(whole) < 1_000_000_000:
        return f"{whole / 1_000_000:.3f} ms"
    return f"{whole / 1_000_000_000:.3f} s"


def size(size_bytes: int) -> str:
    """A size in bytes, in the binary unit that keeps it readable: `512 B`, `1.5 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    if size_bytes < 1024**2:
        return f"{size_bytes / 1024:.1f} KiB"
    if size_bytes < 1024**3:
        return f"{size_bytes / 1024**2:.1f} MiB"
    return f"{size_bytes / 1024**3:.1f} GiB"
