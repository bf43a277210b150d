"""What the commands that read one recording have in common: its arguments, and what is none."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from otel_torchprof.errors import TorchprofError

if TYPE_CHECKING:
    from rich.console import Console

    from otel_torchprof.cli.text import Commands
    from otel_torchprof.importers import ImportReport
    from otel_torchprof.recording import Recording


def add_command(commands: Commands, name: str, says: str, description: str) -> argparse.ArgumentParser:
    """A command that reads one recording and prints text, or JSON for machines."""
    parser = commands.add_parser(name, help=says, description=description)
    parser.add_argument(
        "input", metavar="IN", type=file_name, help="a recording or trace of any known format"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, for machines")
    return parser


def file_name(text: str) -> str:
    """What is given as the name of a file: an empty one, as of an unset variable, would be the folder "."."""
    if not text:
        raise argparse.ArgumentTypeError("the name is empty: give that of a file")
    return text


def print_state(console: Console, recording: Recording, imported: ImportReport) -> None:
    """Says where something is missing, or was not as it should be; nothing of a sound recording."""
    if recording.drops or recording.problems:
        console.print("incomplete: otel-torchprof info says what was dropped or could not be read")
    elif imported.harmful:
        console.print("the file is not quite in order: otel-torchprof info says what was found in it")


def require_contents(path: str, recording: Recording, imported: ImportReport) -> None:
    """Refuses a recording with nothing in it, of which nothing can be said.

    Raises:
        TorchprofError: it holds no event, step or memory; it says what was wrong with the file.
    """
    if len(recording) or recording.steps or len(recording.memory):
        return
    problems = ", ".join(f"{name} {count:,}" for name, count in imported.problems.items())
    why = f"what could not be read: {problems}" if problems else "nothing was recorded into it"
    raise TorchprofError(f"{path} holds no events: {why}")
