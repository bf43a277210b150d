"""The command `otel-torchprof`: argument parsing and printing only.

Exit codes: 0 done; 1 findings (`doctor` found something missing, `patterns` what it was asked to fail on);
2 wrong use or unreadable input, one line on standard error; 130 interrupted; 141 the reader of a pipe went
away; 143 terminated.

What takes long to import, as numpy does, is imported by `main`: an interrupt is no traceback then either.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from otel_torchprof.cli.termination import Terminated, termination_raises
from otel_torchprof.errors import TorchprofError
from otel_torchprof.version import __version__

EXIT_WRONG_USE = 2
EXIT_INTERRUPTED = 130  # as a shell reports SIGINT
EXIT_BROKEN_PIPE = 141  # as a shell reports SIGPIPE
EXIT_TERMINATED = 143  # as a shell reports SIGTERM


class _Parser(argparse.ArgumentParser):
    """Says what was wrong in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        from otel_torchprof.cli.text import printable

        left_over = message.removeprefix("unrecognized arguments: ")
        if left_over != message and not any(word.startswith("-") for word in left_over.split()):
            several = "one input at a time: a loop of the shell, or convert, takes several"
            message = f"{several}; left over: {left_over}"
        self.exit(EXIT_WRONG_USE, f"{self.prog}: {printable(message)} (see {self.prog} --help)\n")


def _make_parser() -> argparse.ArgumentParser:
    from otel_torchprof.cli import build, convert, doctor, info, patterns, replay, report

    parser = _Parser(
        prog="otel-torchprof", description="Recordings of PyTorch, and what this machine can record."
    )
    parser.add_argument("--version", action="version", version=f"otel-torchprof {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in (info, report, patterns, convert, replay, doctor, build):
        command.add_to(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; `arguments` defaults to the process's own."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # a name the terminal cannot show is no reason to fail
    try:
        with termination_raises():
            return _run(arguments)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Terminated:
        return EXIT_TERMINATED
    except BrokenPipeError:
        # What is still buffered would fail again when the interpreter flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_BROKEN_PIPE
    except OSError as error:
        return _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except TorchprofError as error:
        return _fail(str(error))


def _run(arguments: Sequence[str] | None) -> int:
    from otel_torchprof.recorder.bridge import BridgeUnavailable

    options = _make_parser().parse_args(arguments)
    try:
        code: int = options.run(options)
    except BridgeUnavailable as error:
        return _fail(str(error))
    sys.stdout.flush()
    return code


def _fail(message: str) -> int:
    from otel_torchprof.cli.text import printable

    one_line = " ".join(message.split())
    print(f"otel-torchprof: {printable(one_line)}", file=sys.stderr)
    return EXIT_WRONG_USE
