"""`otel-torchprof doctor`: what works on this machine."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from otel_torchprof.cli.text import OutputConsole, cell
from otel_torchprof.doctor.examination import examine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from otel_torchprof.cli.text import Commands
    from otel_torchprof.doctor.check import Check

_STYLES = {"ok": "green", "off": "yellow", "missing": "red"}
_GAP = 2  # between columns
_MIN_SAID_WIDTH = 40  # below this a column of sentences is one word a line
_INDENT = 2


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "doctor",
        help="what works on this machine and, for what does not, why and the way out",
        description="Looks at everything a recording needs. Exits 1 when something is missing.",
    )
    parser.add_argument("--json", action="store_true", help="one JSON array, for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    checks = examine(os.environ)
    if options.json:
        print(json.dumps([asdict(check) for check in checks], indent=2))
    else:
        _print(OutputConsole(), checks)
    return 1 if any(check.state == "missing" for check in checks) else 0


def _print(console: OutputConsole, checks: Sequence[Check]) -> None:
    """A table, or on a terminal too narrow for one what was found below each name."""
    rows = [
        (Text(check.state, style=_STYLES[check.state]), cell(check.name), _said(check)) for check in checks
    ]
    before_said = max(len(check.state) for check in checks) + max(len(check.name) for check in checks)
    if console.width - before_said - 2 * _GAP < _MIN_SAID_WIDTH:
        for state, name, said in rows:
            console.print(Text.assemble(state, " ", name))
            console.print(Padding(said, (0, 0, 0, _INDENT)), overflow="fold")
        return
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _said(check: Check) -> Text:
    said = cell(check.detail)
    return said.append("\n-> ").append_text(cell(check.way_out)) if check.way_out else said
