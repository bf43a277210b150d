"""The estimated occupancy of kernels, against what Kineto made of the same figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otel_torchprof.analysis.device_properties import device_properties
from otel_torchprof.analysis.occupancy import kernel_occupancy
from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recording import DEVICE_DTYPE, EventKind, Recording, RecordingBuilder, TrackKind
from tests.support.test_data import DATA, needs_data

# As Kineto's traces describe them.
V100 = {
    "id": 0, "name": "Tesla V100", "totalGlobalMem": 34084028416, "computeMajor": 7, "computeMinor": 0,
    "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536,
    "regsPerMultiprocessor": 65536, "warpSize": 32, "sharedMemPerBlock": 49152,
    "sharedMemPerMultiprocessor": 98304, "numSms": 80, "sharedMemPerBlockOptin": 98304,
}  # fmt: skip
A100 = V100 | {
    "name": "A100", "computeMajor": 8, "sharedMemPerMultiprocessor": 167936, "numSms": 108,
    "sharedMemPerBlockOptin": 166912,
}  # fmt: skip
H100 = A100 | {"name": "H100", "computeMajor": 9, "sharedMemPerMultiprocessor": 233472, "numSms": 132}
AMD = V100 | {"name": "AMD Instinct MI300X", "warpSize": 64, "computeMajor": 9, "computeMinor": 4}

Kernel = tuple[tuple[int, int, int], tuple[int, int, int], int, int]  # grid, block, registers, shared memory


def recording_of(kernel: Kernel, metadata: dict[str, Any], percent: float = np.nan) -> Recording:
    builder = RecordingBuilder()
    stream = builder.add_track("stream 7", TrackKind.STREAM, thread_id=7, device=0)
    builder.add_event("copy", 0, 5, track=stream, kind=EventKind.MEMCPY)
    builder.add_event("gemm", 10, 20, track=stream, kind=EventKind.KERNEL)
    records = np.zeros(2, dtype=DEVICE_DTYPE)
    for name in ("blocks_per_sm", "warps_per_sm", "occupancy_percent"):
        records[name] = np.nan
    records["event"] = [0, 1]
    records["stream"] = 7
    records["size_bytes"] = records["registers"] = records["shared_bytes"] = -1
    gemm = records[1]
    gemm["grid"], gemm["block"], gemm["registers"], gemm["shared_bytes"] = kernel
    gemm["occupancy_percent"] = percent
    builder.add_devices(records)
    builder.add_metadata(metadata)
    return builder.finish()


def of_ours(properties: dict[str, Any]) -> dict[str, Any]:
    """As the recorder says of a device."""
    return {"device": {"properties": [properties]}}


@pytest.mark.parametrize(
    ("properties", "kernel", "percent"),
    [
        # What Kineto says of kernels like these.
        pytest.param(A100, ((864, 1, 1), (256, 1, 1), 47, 0), 63, id="registers bound it"),
        pytest.param(A100, ((2400, 1, 1), (256, 1, 1), 27, 0), 100, id="threads bound it"),
        pytest.param(A100, ((8, 16, 5), (128, 1, 1), 122, 12544), 25, id="grid in three directions"),
        pytest.param(A100, ((1, 1, 1), (128, 1, 1), 16, 0), 0, id="one block"),
        pytest.param(H100, ((564, 1, 1), (128, 1, 1), 32, 0), 27, id="the grid bounds it"),
        pytest.param(V100, ((50, 1, 1), (256, 1, 1), 38, 0), 8, id="half a block a multiprocessor"),
        pytest.param(V100, ((576, 1, 1), (64, 1, 1), 16, 0), 22, id="22.5 in single precision"),
        # By the rules: 1 KiB more a block since Ampere, in pieces of 128 bytes.
        pytest.param(V100, ((9999, 1, 1), (32, 1, 1), 16, 32768), 5, id="shared memory, three blocks"),
        pytest.param(
            A100, ((9999, 1, 1), (32, 1, 1), 16, 40961), 5, id="shared memory, three for the system"
        ),
        pytest.param(A100, ((9999, 1, 1), (32, 1, 1), 16, 0), 50, id="32 blocks"),
        pytest.param(A100 | {"computeMinor": 6}, ((9999, 1, 1), (32, 1, 1), 16, 0), 25, id="16 blocks"),
        pytest.param(
            A100 | {"maxBlocksPerMultiprocessor": 8}, ((9999, 1, 1), (32, 1, 1), 16, 0), 13, id="as it says"
        ),
        # Kineto says 0, though a kernel that has run has kept its threads there.
        pytest.param(H100, ((30, 1, 1), (384, 1, 1), 168, 231424), 4, id="shared memory that it asked for"),
    ],
)
def test_it_follows_from_the_kernel_and_the_device(
    properties: dict[str, Any], kernel: Kernel, percent: int
) -> None:
    found = kernel_occupancy(recording_of(kernel, of_ours(properties)))
    assert np.isnan(found[0])
    assert found[1] == percent


@pytest.mark.parametrize(
    ("metadata", "kernel"),
    [
        pytest.param({}, ((9, 1, 1), (32, 1, 1), 16, 0), id="no properties"),
        pytest.param(of_ours(AMD), ((9, 1, 1), (32, 1, 1), 16, 0), id="not NVIDIA's"),
        pytest.param(of_ours(V100 | {"computeMajor": 6}), ((9, 1, 1), (32, 1, 1), 16, 0), id="too old"),
        pytest.param(of_ours(V100 | {"id": 1}), ((9, 1, 1), (32, 1, 1), 16, 0), id="another device"),
        pytest.param(of_ours(V100 | {"numSms": "80"}), ((9, 1, 1), (32, 1, 1), 16, 0), id="damaged"),
        pytest.param(of_ours(V100), ((0, 1, 1), (32, 1, 1), 16, 0), id="no grid"),
        pytest.param(of_ours(V100), ((9, 1, 1), (32, 1, 1), -1, 0), id="no registers"),
        pytest.param(of_ours(V100), ((9, 1, 1), (1024, 1, 1), 255, 0), id="does not fit"),
        pytest.param(of_ours(V100), ((2**32 - 1,) * 3, (2**32 - 1,) * 3, 255, 0), id="absurd"),
    ],
)
def test_what_is_not_known_stays_so(metadata: dict[str, Any], kernel: Kernel) -> None:
    assert np.isnan(kernel_occupancy(recording_of(kernel, metadata))).all()


def test_what_was_recorded_holds() -> None:
    recording = recording_of(((864, 1, 1), (256, 1, 1), 47, 0), of_ours(A100), percent=7)
    assert kernel_occupancy(recording)[1] == 7


@pytest.mark.parametrize("name", ["trace.json", "run"])
def test_traces_have_it_and_the_properties(tmp_path: Path, name: str) -> None:
    recording = recording_of(((864, 1, 1), (256, 1, 1), 47, 0), of_ours(A100))
    out = tmp_path / name
    export(recording, out, "chrome" if name.endswith("json") else "tensorboard")
    (path,) = [out] if out.is_file() else out.iterdir()
    read_back, _report = load(path)
    assert kernel_occupancy(read_back)[read_back.devices["registers"] == 47] == 63
    assert device_properties(read_back) == [A100]


def test_a_kernel_has_the_arguments_that_kineto_writes(tmp_path: Path) -> None:
    export(recording_of(((864, 1, 1), (256, 1, 1), 47, 0), of_ours(A100)), tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text("utf-8"))
    (kernel,) = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    assert kernel["args"]["est. achieved occupancy %"] == 63
    assert kernel["args"]["queued"] == 0
    assert trace["deviceProperties"] == [A100]


# Execution traces hold no times.
TRACES = [path for path in sorted(DATA.glob("kineto/*.json.gz")) if "execution_trace" not in path.name]


@needs_data
@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_it_is_what_kineto_estimated(path: Path) -> None:
    recording, _report = load(path)
    estimated = _without_occupancy(recording)
    devices = recording.devices
    known = ~np.isnan(devices["occupancy_percent"]) & ~np.isnan(estimated)
    shared = {int(device["id"]): int(device["sharedMemPerBlock"]) for device in device_properties(recording)}
    limit = np.array([shared.get(device, 0) for device in devices["device"].tolist()])
    asked = devices["shared_bytes"] > limit
    assert estimated[known & ~asked].tolist() == devices["occupancy_percent"][known & ~asked].tolist()
    assert not devices["occupancy_percent"][known & asked].any()
    if any(device.get("warpSize") == 32 for device in device_properties(recording)):
        is_kernel = recording.events.kind[devices["event"].astype(np.int64)] == EventKind.KERNEL
        assert known[is_kernel & ~np.isnan(devices["occupancy_percent"])].all()


def _without_occupancy(recording: Recording) -> Any:
    """The estimates for the kernels of a recording as if nobody had made any."""
    records = recording.devices.copy()
    records["occupancy_percent"] = np.nan
    builder = RecordingBuilder()
    for track in recording.tracks:
        builder.add_track(track.name, track.kind, thread_id=track.thread_id, device=track.device)
    events = recording.events
    for row in records["event"].tolist():
        builder.add_event("work", 0, 0, track=int(events.track[row]), kind=EventKind(int(events.kind[row])))
    order = np.argsort(events.track[records["event"].astype(np.int64)], kind="stable")
    numbered = records.copy()
    numbered["event"] = np.arange(len(records))
    builder.add_devices(numbered)
    builder.add_metadata(dict(recording.metadata))
    estimated = np.empty(len(records), dtype=np.float32)
    estimated[order] = kernel_occupancy(builder.finish())
    return estimated
