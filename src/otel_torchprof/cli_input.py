"""What the commands that read one recording have in common."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from otel_torchprof.cli_text import Commands


def add_command(commands: Commands, name: str, says: str, description: str) -> argparse.ArgumentParser:
    """A command that reads one recording and prints text, or JSON for machines."""
    parser = commands.add_parser(name, help=says, description=description)
    parser.add_argument("input", metavar="IN", help="a recording or trace of any known format")
    parser.add_argument("--json", action="store_true", help="one JSON object, for machines")
    return parser
