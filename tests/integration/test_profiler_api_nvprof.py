"""`load_nvprof`: a database that nvprof wrote under `emit_nvtx`, as events."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from otel_torchprof import autograd_profiler
from otel_torchprof.importers import UnreadableInputError
from tests.support.sqlite_tables import CUPTI_PREFIX, Tables, write_tables

BASE_NS = 1_700_000_000_000_000_000
OWNER = struct.pack("<II", 77, 78)  # process and thread
MARKER_START, MARKER_END = 2, 4
CUDA_LAUNCH_KERNEL = 211


def tables() -> Tables:
    """`forward` around `matmul`; each launches a kernel."""

    def marker(number: int, at_us: int, flags: int, name: int) -> dict[str, Any]:
        return {
            "id": number, "timestamp": BASE_NS + 1000 * at_us, "flags": flags, "name": name,
            "objectId": OWNER,
        }  # fmt: skip

    def launch(number: int, at_us: int) -> dict[str, Any]:
        return {
            "_id_": number, "cbid": CUDA_LAUNCH_KERNEL, "start": BASE_NS + 1000 * at_us,
            "end": BASE_NS + 1000 * (at_us + 1), "processId": 77, "threadId": 78, "correlationId": number,
        }  # fmt: skip

    def kernel(number: int, at_us: int, duration_us: int) -> dict[str, Any]:
        return {
            "start": BASE_NS + 1000 * at_us, "end": BASE_NS + 1000 * (at_us + duration_us),
            "correlationId": number, "name": 3, "deviceId": 0, "contextId": 1, "streamId": 7,
        }  # fmt: skip

    return {
        "StringTable": [
            {"_id_": 1, "value": "forward"},
            {"_id_": 2, "value": "matmul"},
            {"_id_": 3, "value": "gemm"},
        ],
        CUPTI_PREFIX + "MARKER": [
            marker(1, 10, MARKER_START, 1),
            marker(2, 20, MARKER_START, 2),
            marker(2, 30, MARKER_END, 0),
            marker(1, 60, MARKER_END, 0),
        ],
        CUPTI_PREFIX + "RUNTIME": [launch(1, 21), launch(2, 41)],
        CUPTI_PREFIX + "CONCURRENT_KERNEL": [kernel(1, 23, 4), kernel(2, 43, 6)],
    }


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tables(tmp_path / "run.nvprof", tables())


def test_ranges_are_those_that_torch_finds(path: Path) -> None:
    theirs = torch.autograd.profiler.load_nvprof(str(path))
    ours = [event for event in autograd_profiler.load_nvprof(path) if event.name in ("forward", "matmul")]
    assert [event.name for event in ours] == [event.name for event in theirs] == ["forward", "matmul"]
    for our_event, their_event in zip(ours, theirs, strict=True):
        # Torch takes nvprof's nanoseconds for microseconds.
        assert our_event.cpu_time_total * 1000 == their_event.cpu_time_total
    # And it knows a kernel by the number of its name, and counts it for every range around its launch.
    assert [[kernel.duration for kernel in event.kernels] for event in theirs] == [[4000, 6000], [4000]]
    assert [[tuple(kernel) for kernel in event.kernels] for event in ours] == [
        [("gemm", 0, 6.0)],
        [("gemm", 0, 4.0)],
    ]


def test_launches_and_kernels_are_events_too(path: Path) -> None:
    events = autograd_profiler.load_nvprof(path)
    assert [
        (event.name, event.time_range.start, event.time_range.end, event.cpu_parent and event.cpu_parent.name)
        for event in events
    ] == [
        ("forward", 0, 50, None),
        ("matmul", 10, 20, "forward"),
        ("cudaLaunchKernel", 11, 12, "matmul"),
        ("gemm", 13, 17, None),
        ("cudaLaunchKernel", 31, 32, "forward"),
        ("gemm", 33, 39, None),
    ]
    forward = events[0]
    assert (forward.self_cpu_time_total, forward.device_time_total) == (39, 10)


def test_averages_and_tables_are_made_of_it(path: Path) -> None:
    averages = {average.key: average for average in autograd_profiler.load_nvprof(path).key_averages()}
    assert averages["gemm"].count == averages["cudaLaunchKernel"].count == 2
    assert averages["gemm"].self_device_time_total == 10
    assert "matmul" in autograd_profiler.load_nvprof(str(path)).table()


def test_parsing_alone_gives_the_same_events(path: Path) -> None:
    parsed = autograd_profiler.parse_nvprof_trace(path)
    assert [event.name for event in parsed] == [event.name for event in autograd_profiler.load_nvprof(path)]


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.nvprof").write_text("no database")
    with pytest.raises(UnreadableInputError):
        autograd_profiler.load_nvprof(tmp_path / "text.nvprof")
