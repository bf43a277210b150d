"""The command line on a terminal of a given width."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Sequence

import pytest

from otel_torchprof.cli import main as cli


class TerminalText(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


def use_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> TerminalText:
    """A terminal of that width as standard output."""
    terminal = TerminalText()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name, value in {"COLUMNS": str(width), "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    return terminal


def lines_of(terminal: TerminalText) -> list[str]:
    """The lines on it, without what sets colours, and without blanks at their ends."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    return [line.rstrip(" ") for line in text.splitlines()]


def terminal_lines(monkeypatch: pytest.MonkeyPatch, width: int, arguments: Sequence[str]) -> list[str]:
    """What a command that succeeds prints there."""
    terminal = use_terminal(monkeypatch, width)
    assert cli.main(arguments) == 0
    return lines_of(terminal)
