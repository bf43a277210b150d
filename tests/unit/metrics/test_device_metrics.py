"""Kernels, copies and how busy devices were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.metrics.device_metrics import copy_kind, device_families
from otel_torchprof.metrics.families import HistogramPoint, NumberPoint
from otel_torchprof.recording import (
    DEVICE_DTYPE,
    EventFlags,
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    TrackKind,
)
from otel_torchprof.semconv_metrics import (
    DEVICE_BUSY_TIME,
    KERNEL_DURATION,
    KERNEL_LAUNCH_DELAY,
    KERNEL_LAUNCHES,
    KERNEL_TIME,
    MEMCPY_SIZE,
    MEMCPY_TIME,
)

US = 1_000
NO_FLAGS = EventFlags(0)


class Device:
    """A builder of recordings with one thread and streams of two devices."""

    def __init__(self) -> None:
        self.builder = RecordingBuilder()
        self.builder.add_track("main")
        self.streams = {
            (device, stream): self.builder.add_track(
                f"stream {stream}", TrackKind.STREAM, thread_id=stream, device=device
            )
            for device in (0, 1)
            for stream in (7, 8)
        }

    def work(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        kind: EventKind = EventKind.KERNEL,
        device: int = 0,
        stream: int = 7,
        flags: EventFlags = NO_FLAGS,
        size_bytes: int | None = None,
    ) -> int:
        track = self.streams[device, stream]
        event = self.builder.add_event(name, start_ns, end_ns, track=track, kind=kind, flags=flags)
        if size_bytes is not None:
            record = np.zeros(1, dtype=DEVICE_DTYPE)
            record["event"], record["size_bytes"] = event, size_bytes
            self.builder.add_devices(record)
        return event

    def launch(self, start_ns: int, end_ns: int, work: int, kind: EventKind = EventKind.RUNTIME) -> None:
        call = self.builder.add_event("cudaLaunchKernel", start_ns, end_ns, kind=kind)
        self.builder.add_link(call, work, LinkType.LAUNCH)


def values(recording: Recording, metric: str, *, durations: bool = False) -> dict[tuple[Any, ...], Any]:
    families = device_families(recording, 3, durations=durations)
    (family,) = (family for family in families if family.metric.name == metric)
    found: dict[tuple[Any, ...], Any] = {}
    for point in family.points:
        assert set(point.attributes) <= set(family.metric.attributes)
        assert point.start_unix_ns == 3
        key = tuple(point.attributes.get(name) for name in family.metric.attributes)
        found[key] = point.value if isinstance(point, NumberPoint) else point
    return found


def test_kernels_by_short_name_and_device() -> None:
    device = Device()
    device.work("void sum<float>(float*)", 0, 5 * US)
    device.work("void sum<int>(int*)", 10 * US, 12 * US, stream=8)
    device.work("sum", 0, 3 * US, device=1)
    device.work("unfinished", 0, 100 * US, flags=EventFlags.UNFINISHED)
    recording = device.builder.finish()
    assert values(recording, KERNEL_LAUNCHES) == {("sum", 0): 2, ("sum", 1): 1}
    assert values(recording, KERNEL_TIME) == {("sum", 0): 7e-6, ("sum", 1): 3e-6}
    histograms = values(recording, KERNEL_DURATION, durations=True)
    assert {key: (point.count, point.max) for key, point in histograms.items()} == {
        ("sum", 0): (2, 5e-6),
        ("sum", 1): (1, 3e-6),
    }


def test_no_histograms_of_kernels_unless_asked_for() -> None:
    names = [family.metric.name for family in device_families(Device().builder.finish(), 0)]
    assert KERNEL_DURATION not in names


def test_a_kernel_waits_from_the_end_of_its_launch() -> None:
    device = Device()
    device.launch(0, 2 * US, device.work("late", 6 * US, 7 * US))
    device.launch(10 * US, 20 * US, device.work("early", 12 * US, 14 * US), EventKind.DRIVER)
    device.launch(30 * US, 31 * US, device.work("Memcpy HtoD", 40 * US, 41 * US, kind=EventKind.MEMCPY))
    device.work("launched by nobody", 50 * US, 51 * US)
    ((key, point),) = values(device.builder.finish(), KERNEL_LAUNCH_DELAY).items()
    assert isinstance(point, HistogramPoint)
    assert (key, point.count, point.min, point.max) == ((0,), 2, 0.0, 4e-6)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD"),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH"),
        ("Memcpy DtoD (Device -> Device)", "DtoD"),
        ("Memcpy PtoP (Device -> Device)", "PtoP"),
        ("Memset (Device)", "memset"),
        ("CopyHostToDevice", "HtoD"),
        ("FillBuffer", "memset"),
        ("Memcpy HtoDevice", "other"),
        ("something else", "other"),
    ],
)
def test_the_direction_of_a_copy(name: str, kind: str) -> None:
    assert copy_kind(name) == kind


def test_copies_by_direction() -> None:
    device = Device()
    copy = EventKind.MEMCPY
    device.work("Memcpy HtoD (Pageable -> Device)", 0, 4 * US, kind=copy, size_bytes=100)
    device.work("Memcpy HtoD (Pinned -> Device)", 5 * US, 6 * US, kind=copy, size_bytes=20)
    device.work("Memcpy DtoH (Device -> Pageable)", 7 * US, 8 * US, kind=copy, size_bytes=-1)
    device.work("Memset (Device)", 0, 1 * US, kind=EventKind.MEMSET, device=1, size_bytes=8)
    recording = device.builder.finish()
    assert values(recording, MEMCPY_TIME) == {("HtoD", 0): 5e-6, ("DtoH", 0): 1e-6, ("memset", 1): 1e-6}
    assert values(recording, MEMCPY_SIZE) == {("HtoD", 0): 120, ("DtoH", 0): 0, ("memset", 1): 8}


def test_a_device_is_busy_while_anything_runs() -> None:
    device = Device()
    device.work("gemm", 0, 10 * US)
    device.work("gemm", 5 * US, 15 * US, stream=8)
    device.work("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 12 * US, 20 * US)
    device.work("Memcpy HtoD", 18 * US, 30 * US, kind=EventKind.MEMCPY, stream=8)
    device.work("gemm", 100 * US, 101 * US, device=1)
    assert values(device.builder.finish(), DEVICE_BUSY_TIME) == {
        (0, "compute"): 15e-6,
        (0, "copy"): 12e-6,
        (0, "collective"): 8e-6,
        (0, "any"): 30e-6,
        (1, "compute"): 1e-6,
        (1, "any"): 1e-6,
    }


_WORK = st.lists(
    st.tuples(
        st.sampled_from(["gemm", "ncclKernel_Broadcast_RING", "Memcpy HtoD"]),
        st.integers(0, 40),
        st.integers(0, 40),
        st.sampled_from([0, 1]),
        st.sampled_from([7, 8]),
    ),
    max_size=12,
)


@given(_WORK)
def test_busy_times_are_unions(work: list[tuple[str, int, int, int, int]]) -> None:
    device = Device()
    busy: dict[tuple[int, str], set[int]] = {}
    for name, one, other, index, stream in work:
        start_ns, end_ns = sorted([one, other])
        kind = EventKind.MEMCPY if name.startswith("Memcpy") else EventKind.KERNEL
        device.work(name, start_ns, end_ns, kind=kind, device=index, stream=stream)
        part = {"gemm": "compute", "Memcpy HtoD": "copy"}.get(name, "collective")
        for key in ((index, part), (index, "any")):
            busy.setdefault(key, set()).update(range(start_ns, end_ns))
    got = values(device.builder.finish(), DEVICE_BUSY_TIME)
    assert {key: round(value * 1e9) for key, value in got.items()} == {
        key: len(moments) for key, moments in busy.items()
    }


def test_a_device_that_is_not_known_has_no_number() -> None:
    builder = RecordingBuilder()
    builder.add_track(kind=TrackKind.OTHER)
    builder.add_event("gemm", 0, 5 * US, kind=EventKind.KERNEL)
    assert values(builder.finish(), KERNEL_TIME) == {("gemm", None): 5e-6}
