"""`otel-torchprof doctor`: what works on this machine."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from otel_torchprof.cli.text import OutputConsole, cell
from otel_torchprof.doctor.examination import examine

if TYPE_CHECKING:
    from otel_torchprof.cli.text import Commands

_STYLES = {"ok": "green", "off": "yellow", "missing": "red"}


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
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for check in checks:
            said = cell(check.detail)
            if check.way_out:
                said.append("\n-> ").append_text(cell(check.way_out))
            table.add_row(Text(check.state, style=_STYLES[check.state]), cell(check.name), said)
        OutputConsole().print(table)
    return 1 if any(check.state == "missing" for check in checks) else 0
