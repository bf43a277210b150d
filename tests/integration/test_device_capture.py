"""A capture of torch ops and of a stand-in device: its work has the structure that imported traces have."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recording import EventKind, Recording, TrackKind
from tests.support.device_structure import callers, check_lanes, check_links, check_metrics, check_spans
from tests.support.required_tools import skip_or_fail

PROGRAM = """
import ctypes
import sys
from pathlib import Path

from tests.support.stand_in_device import launch, load_stand_in

folder = Path(sys.argv[1])
stand_in = load_stand_in(folder)  # before torch, which may bring a libcupti along

import torch

from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.sources.device import DeviceSource

GEMM, RELU = b"_Z4gemmPfi", b"_Z4reluPf"
COPY, CONTEXT_WAIT, OF_A_GRAPH = 41, 4, 99


def work(emit, *what, callback_id=COPY):
    correlation = stand_in.stand_in_call(callback_id, 0)
    start_ns = stand_in.stand_in_now_ns()
    emit(correlation, *what, ctypes.c_uint64(start_ns), ctypes.c_uint64(start_ns + 500))


# A copy, one between devices, a fill, a wait, a node of a graph, and a kernel on the second device.
@torch.library.custom_op("stand_in::others", mutates_args=())
def others(x: torch.Tensor) -> torch.Tensor:
    work(stand_in.stand_in_copy, ctypes.c_uint64(4096), 0)
    work(stand_in.stand_in_copy, ctypes.c_uint64(8192), 1)
    work(stand_in.stand_in_memset, ctypes.c_uint64(512))
    work(stand_in.stand_in_synchronize, CONTEXT_WAIT)
    launch(stand_in, RELU, stream=OF_A_GRAPH)
    launch(stand_in, GEMM, device=1)
    return x.clone()


@torch.library.custom_op("stand_in::layer", mutates_args=())
def layer(x: torch.Tensor) -> torch.Tensor:
    launch(stand_in, GEMM)
    launch(stand_in, RELU, stream=20)
    return x.clone()


def backward(context, gradient):
    launch(stand_in, GEMM)
    return gradient


layer.register_autograd(backward)

capture = Capture(folder / "run.tprof", sources=[DeviceSource(required=True)])
capture.start()
for number in range(3):
    capture.begin_step(number)
    with torch.profiler.record_function("forward"):
        loss = layer(torch.ones(4, requires_grad=True)).sum()
    loss.backward()
    others(torch.ones(4))
capture.end_step()
capture.stop()
"""

# Of three steps: three kernels, and in `others` two copies, a fill, two kernels.
KERNELS = 3 * (3 + 2)
WORK = KERNELS + 3 * 3
WORK_KINDS = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)


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
    assert check_lanes(recording) == WORK
    assert check_links(recording) == WORK
    assert check_spans(recording) == WORK
    assert check_metrics(recording) == KERNELS


def test_every_kind_of_work_is_there_with_its_numbers(recording: Recording) -> None:
    of_kind = Counter(
        EventKind(kind) for kind in recording.events.kind if kind in (*WORK_KINDS, EventKind.SYNC)
    )
    assert of_kind == {
        EventKind.KERNEL: KERNELS, EventKind.MEMCPY: 6, EventKind.MEMSET: 3, EventKind.SYNC: 3
    }  # fmt: skip
    sizes = Counter(int(row["size_bytes"]) for row in recording.devices if row["size_bytes"] >= 0)
    assert sizes == {4096: 3, 8192: 3, 512: 3}
    graphs = [row for row in recording.devices if row["graph_node_id"] >= 0]
    assert [(row["graph_id"], row["graph_node_id"]) for row in graphs] == [(3, 7)] * 3
    streams = {(track.device, track.name) for track in recording.tracks if track.kind == TrackKind.STREAM}
    assert {(0, "stream 7"), (0, "stream 20"), (0, "stream 99"), (1, "stream 7")} <= streams


def test_calls_lie_in_the_ops_that_made_them(recording: Recording) -> None:
    within = Counter(
        (recording.event_name(work), "stand_in::layer" in _enclosing(recording, call))
        for work, call in callers(recording).items()
        if "stand_in::others" not in _enclosing(recording, call)
    )
    # One of the two of the first kernel is launched by the backward pass.
    gemm, relu = "gemm(float*, int)", "relu(float*)"
    assert within == {(gemm, True): 3, (gemm, False): 3, (relu, True): 3}
    assert all(_enclosing(recording, call) for call in callers(recording).values())


def test_it_comes_back_from_a_chrome_trace_as_it_was(recording: Recording, tmp_path: Path) -> None:
    export(recording, tmp_path / "trace.json", "chrome")
    again = load(tmp_path / "trace.json")[0]
    assert check_links(again) == WORK
    assert check_spans(again) == WORK
    for column in ("correlation", "kind"):
        assert sorted(_of_kernels(again, column)) == sorted(_of_kernels(recording, column))
    ids = [row["external_id"] for row in recording.devices if row["grid"].any()]
    assert min(ids) > 0
    assert sorted(row["external_id"] for row in again.devices if row["grid"].any()) == sorted(ids)


def test_what_the_devices_are_is_kept_and_written(recording: Recording, tmp_path: Path) -> None:
    device = recording.metadata["device"]
    assert (device["complete"], device["devices"], device["counts"]["kernels"]) == (True, 2, KERNELS)
    first, second = device["properties"]
    assert (first["name"], first["numSms"], first["maxThreadsPerMultiprocessor"]) == ("stand-in 0", 132, 2048)
    assert second == {"id": 1, "name": "stand-in 1"}  # of which the driver tells no more
    export(recording, tmp_path / "trace.json", "chrome")
    trace = json.loads((tmp_path / "trace.json").read_bytes())
    assert trace["deviceProperties"] == device["properties"]
    of_device = Counter(
        (event["args"]["device"], event["args"].get("est. achieved occupancy %"))
        for event in trace["traceEvents"]
        if event.get("cat") == "kernel"
    )
    # 528 blocks of 128 threads on 132 multiprocessors: 512 of 2048 threads.
    assert of_device == {(0, 25): KERNELS - 3, (1, None): 3}


def _enclosing(recording: Recording, row: int) -> list[str]:
    parents, names = recording.tree().parent, []
    while (row := int(parents[row])) >= 0:
        names.append(recording.event_name(row))
    return names


def _of_kernels(recording: Recording, column: str) -> list[int]:
    rows = np.flatnonzero(recording.events.kind == EventKind.KERNEL)
    return [int(value) for value in getattr(recording.events, column)[rows]]
