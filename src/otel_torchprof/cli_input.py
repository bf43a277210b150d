"""Reading what a command was given."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from otel_torchprof.recording import Recording

if TYPE_CHECKING:
    from otel_torchprof.cli_text import Commands


def add_command(commands: Commands, name: str, says: str, description: str) -> argparse.ArgumentParser:
    """A command that reads one recording and prints text, or JSON for machines."""
    parser = commands.add_parser(name, help=says, description=description)
    parser.add_argument("input", metavar="IN", help="a .tprof recording")
    parser.add_argument("--json", action="store_true", help="one JSON object, for machines")
    return parser


def open_input(options: argparse.Namespace) -> Recording:
    """The recording a command was given; raises OSError or TorchprofError where it cannot be read."""
    return Recording.open(options.input)
