"""A command that a signal ends in the middle of writing leaves nothing of what it wrote."""

from __future__ import annotations

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from otel_torchprof.cli import main as cli
from otel_torchprof.exporters import export
from tests.support.report_recordings import training_recording

# Stops after the first piece of the output, until a signal comes. The signals are as a shell's foreground has
# them, whatever the process that runs the tests does with them.
PROGRAM = """
import signal, sys
from otel_torchprof.cli import main as cli
from otel_torchprof.exporters.output_file import OutputFile

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
write = OutputFile.write

def write_and_wait(self, data):
    write(self, data)
    print("writing", flush=True)
    signal.pause()

OutputFile.write = write_and_wait
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def recording_path(tmp_path: Path) -> Path:
    path = tmp_path / "in.tprof"
    export(training_recording(), path)
    return path


def start_and_wait_for_output(*arguments: str | Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    return process


# A Chrome trace is handed over by native code, which the exception passes through.
@pytest.mark.parametrize("output", ["out.json", "out.json.gz", "out.pb", "page.html"])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_nothing_is_left(recording_path: Path, output: str, number: signal.Signals, code: int) -> None:
    target = recording_path.with_name(output)
    target.write_text("old")
    command: list[str | Path] = ["convert", recording_path]
    if output == "page.html":
        command = ["report", recording_path, "-o"]
    process = start_and_wait_for_output(*command, target)
    assert len(list(target.parent.glob(".torchprof-*.tmp"))) == 1
    process.send_signal(number)
    _stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stderr) == (code, "")
    assert sorted(path.name for path in target.parent.iterdir()) == sorted(["in.tprof", output])
    assert target.read_text() == "old"


def test_sigterm_is_as_before_once_a_command_is_done(recording_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["info", str(recording_path)]) == 0
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_command_may_run_in_a_thread_that_takes_no_signals(recording_path: Path) -> None:
    with ThreadPoolExecutor() as threads:
        assert threads.submit(cli.main, ["info", str(recording_path)]).result() == 0
