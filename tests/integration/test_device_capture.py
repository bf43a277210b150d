"""A capture of torch ops and of a stand-in device: its work has the structure that imported traces have."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recording import EventKind, Recording
from tests.support.device_structure import callers, check_lanes, check_links, check_metrics, check_spans
from tests.support.required_tools import skip_or_fail

PROGRAM = """
import sys
from pathlib import Path

from tests.support.stand_in_device import KINDS, launch, load_stand_in

folder = Path(sys.argv[1])
stand_in = load_stand_in(folder)  # before torch, which may bring a libcupti along

import torch

from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.sources.source import Source

GEMM, RELU = b"_Z4gemmPfi", b"_Z4reluPf"


class Device(Source):
    name = "stand-in"

    def start(self, target):
        self._capture = target.capture
        target.capture.start_device([], KINDS)

    def stop(self):
        self._capture.stop_device()


@torch.library.custom_op("stand_in::layer", mutates_args=())
def layer(x: torch.Tensor) -> torch.Tensor:
    launch(stand_in, GEMM)
    launch(stand_in, RELU, stream=20)
    return x.clone()


def backward(context, gradient):
    launch(stand_in, GEMM)
    return gradient


layer.register_autograd(backward)

capture = Capture(folder / "run.tprof", sources=[Device()])
capture.start()
for number in range(3):
    capture.begin_step(number)
    with torch.profiler.record_function("forward"):
        loss = layer(torch.ones(4, requires_grad=True)).sum()
    loss.backward()
capture.end_step()
capture.stop()
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    folder = tmp_path_factory.mktemp("device")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(folder)],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if "FileNotFoundError" in done.stderr:
        skip_or_fail("no C++ compiler: apt-get install g++")
    assert done.returncode == 0, done.stderr
    return load(folder / "run.tprof")[0]


def test_work_is_on_lanes_linked_spanned_and_counted(recording: Recording) -> None:
    assert dict(recording.drops) == {}
    assert dict(recording.problems) == {}
    assert check_lanes(recording) == 9
    assert check_links(recording) == 9
    assert check_spans(recording) == 9
    assert check_metrics(recording) == 9


def test_calls_lie_in_the_ops_that_made_them(recording: Recording) -> None:
    within = Counter(
        (recording.event_name(work), "stand_in::layer" in _enclosing(recording, call))
        for work, call in callers(recording).items()
    )
    # One of the two of the first kernel is launched by the backward pass.
    gemm, relu = "gemm(float*, int)", "relu(float*)"
    assert within == {(gemm, True): 3, (gemm, False): 3, (relu, True): 3}
    assert all(_enclosing(recording, call) for call in callers(recording).values())


def test_it_comes_back_from_a_chrome_trace_as_it_was(recording: Recording, tmp_path: Path) -> None:
    export(recording, tmp_path / "trace.json", "chrome")
    again = load(tmp_path / "trace.json")[0]
    assert check_links(again) == 9
    assert check_spans(again) == 9
    for column in ("correlation", "kind"):
        assert sorted(_of_kernels(again, column)) == sorted(_of_kernels(recording, column))
    ids = [row["external_id"] for row in recording.devices if row["grid"].any()]
    assert min(ids) > 0
    assert sorted(row["external_id"] for row in again.devices if row["grid"].any()) == sorted(ids)


def _enclosing(recording: Recording, row: int) -> list[str]:
    parents, names = recording.tree().parent, []
    while (row := int(parents[row])) >= 0:
        names.append(recording.event_name(row))
    return names


def _of_kernels(recording: Recording, column: str) -> list[int]:
    rows = np.flatnonzero(recording.events.kind == EventKind.KERNEL)
    return [int(value) for value in getattr(recording.events, column)[rows]]
