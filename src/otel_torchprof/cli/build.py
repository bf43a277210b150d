"""`otel-torchprof build`: compiles the torch bridge ahead of time."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from otel_torchprof.recorder.bridge import build_bridge

if TYPE_CHECKING:
    from otel_torchprof.cli.text import Commands


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "build",
        help="compile the torch bridge ahead of time, for images without a compiler",
        description="Compiles the bridge for the installed torch and prints where it is.",
    )
    parser.add_argument(
        "--in-package",
        action="store_true",
        help="put it beside the installed package, for every user of an image, not into this user's cache",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    print(build_bridge(in_package=options.in_package))
    return 0
