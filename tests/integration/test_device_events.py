"""Devices that nothing traces: each op's time there by events, beside what torch makes of the same events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from otel_torchprof.recorder.bridge_build import compile_library
from otel_torchprof.recorder.torch_build import TorchBuild

SOURCE = Path(__file__).parents[1] / "support" / "native" / "timed_device.cpp"
PROGRAM = Path(__file__).parent / "programs" / "timed_device.py"


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("timed_device") / "timed_device.so"
    compile_library(TorchBuild.of(torch), [SOURCE], SOURCE.parent, path, environ=os.environ)
    return path


def profile_on(library: Path, kind: str) -> tuple[dict[str, Any], str]:
    run = subprocess.run(
        [sys.executable, PROGRAM, library, kind], capture_output=True, text=True, check=True, timeout=120
    )
    return json.loads(run.stdout.splitlines()[-1]), run.stderr


@pytest.mark.parametrize("kind", ["cuda", "npu"])
def test_ops_are_timed_by_events_and_nothing_counts_twice(library: Path, kind: str) -> None:
    result, said = profile_on(library, kind)
    assert result["ours"] == {
        "outer": {"total": pytest.approx(7600, abs=1), "self": pytest.approx(2600, abs=1)},
        "inner": {"total": pytest.approx(5000, abs=1), "self": pytest.approx(5000, abs=1)},
    }
    assert result["torchs"] == {
        "outer": {"total": 7600, "self": 2600},
        "inner": {"total": 5000, "self": 5000},
    }
    assert result["metadata"] == {"timed_by": "events", "pieces": 6}
    assert result["state"].startswith("timed by events: ")
    assert not result["drops"]
    assert f"Self {kind.upper()}" in result["table"]
    assert "7.6" in result["table"]
    # Without the device the ops are recorded all the same.
    assert result["refused"].startswith("off: ")
    assert "the device takes no events" in result["refused"]
    assert {"inner", "outer"} <= set(result["refused_events"])
    assert said.count("the device takes no events") == 1
