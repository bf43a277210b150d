"""A signal handler may step, stop or shut down at any moment, also where we hold a lock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("programs") / "interrupted.py"


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ("stop_while_stopping", "done"),
        ("stop_while_starting", "done"),
        ("start_while_stopping_modules", "done"),
        ("load_while_loading", "BridgeUnavailable"),
        ("place_while_placing", "done"),
        ("count_while_counting", "done"),
        ("cancel_while_waiting", "done"),
        ("step_while_stepping", "done"),
        ("uninstrument_while_uninstrumenting", "done"),
        ("start_through_torch_while_starting", "TorchProfilerError"),
        ("stop_through_torch_while_stopping", "TorchProfilerError"),
    ],
)
def test_the_interrupted_call_goes_on(scenario: str, said: str) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), scenario], timeout=120, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, f"{said}\n"), done.stderr
