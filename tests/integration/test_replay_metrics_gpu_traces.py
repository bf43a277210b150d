"""Kernel metrics of GPU traces of years ago, against sums made of the JSON alone."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from otel_torchprof.importers import load
from otel_torchprof.metrics.families import HistogramPoint, NumberPoint
from otel_torchprof.metrics.from_recording import families_from_recording
from otel_torchprof.semconv_metrics import (
    DEVICE_BUSY_TIME,
    KERNEL_LAUNCH_DELAY,
    KERNEL_LAUNCHES,
    KERNEL_TIME,
    MEMCPY_SIZE,
    MEMCPY_TIME,
    SHORT_BOUNDS_S,
    STEP_DURATION,
)
from tests.support.test_data import KINETO, needs_data

pytestmark = needs_data

KERNEL_CATEGORIES = {"kernel", "Kernel"}
COPY_CATEGORIES = {"gpu_memcpy", "gpu_memset", "Memcpy", "Memset"}


def us_to_ns(us: Any) -> int:
    """Decimal digits, so that nothing is rounded."""
    whole, _point, fraction = str(us).partition(".")
    return int(whole) * 1000 + int((fraction + "000")[:3])


def plain_name(signature: str) -> str:
    """The name of a function of C++ without types, by counting brackets."""
    text = signature.replace("(anonymous namespace)::", "")
    if text.startswith("void cutlass::Kernel"):
        return text.partition("<")[2].partition(">")[0]
    name, depth = "", 0
    for char in text:
        if char == "(" and depth == 0:
            break
        depth += (char == "<") - (char == ">")
        if depth == 0 and char != ">":
            name += char
    return name.rpartition(" ")[2]


@dataclass
class Expected:
    """Sums in ns and bytes."""

    launches: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    kernel_ns: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    copy_ns: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    copy_bytes: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    intervals: dict[tuple[int, str], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    delays_ns: list[int] = field(default_factory=list)
    steps_ns: list[int] = field(default_factory=list)

    def busy_ns(self) -> dict[tuple[int, str], int]:
        return {key: covered_ns(intervals) for key, intervals in self.intervals.items()}


def covered_ns(intervals: list[tuple[int, int]]) -> int:
    covered, until = 0, -1
    for start, end in sorted(intervals):
        covered += max(end, until) - max(start, until) if end > until else 0
        until = max(until, end)
    return covered


def read(trace: Path) -> Expected:
    events = json.loads(gzip.decompress(trace.read_bytes()), parse_float=str)["traceEvents"]
    slices = [event for event in events if event.get("ph") == "X"]
    call_ends = {
        event["args"]["correlation"]: us_to_ns(event["ts"]) + us_to_ns(event["dur"])
        for event in slices
        if event["cat"] in {"cuda_runtime", "cuda_driver"} and event["args"].get("correlation")
    }
    expected = Expected()
    for event in slices:
        start_ns, duration_ns = us_to_ns(event["ts"]), us_to_ns(event["dur"])
        if event["name"].startswith("ProfilerStep#") and event["cat"] == "user_annotation":
            expected.steps_ns.append(duration_ns)
        if event["cat"] not in KERNEL_CATEGORIES | COPY_CATEGORIES:
            continue
        device = event["args"]["device"]
        work = "compute" if event["cat"] in KERNEL_CATEGORIES else "copy"
        for part in (work, "any"):
            expected.intervals[device, part].append((start_ns, start_ns + duration_ns))
        if work == "compute":
            name = plain_name(event["name"])
            expected.launches[name, device] += 1
            expected.kernel_ns[name, device] += duration_ns
            if event["args"]["correlation"] in call_ends:
                expected.delays_ns.append(max(start_ns - call_ends[event["args"]["correlation"]], 0))
        else:
            kind = "memset" if event["name"].startswith("Memset") else event["name"].split()[1]
            expected.copy_ns[kind, device] += duration_ns
            expected.copy_bytes[kind, device] += event["args"]["bytes"]
    return expected


@pytest.fixture(params=["h100_bert_small", "alexnet_a100"])
def trace(request: pytest.FixtureRequest) -> Path:
    return KINETO / f"{request.param}.json.gz"


def values(trace: Path) -> dict[str, dict[tuple[Any, ...], Any]]:
    """Values of counters, and whole points of histograms, by attributes."""
    found: dict[str, dict[tuple[Any, ...], Any]] = {}
    for family in families_from_recording(load(trace)[0]):
        for point in family.points:
            key = tuple(point.attributes.get(name) for name in family.metric.attributes)
            value = point.value if isinstance(point, NumberPoint) else point
            found.setdefault(family.metric.name, {})[key] = value
    return found


def in_ns(seconds: dict[tuple[Any, ...], float]) -> dict[tuple[Any, ...], int]:
    return {key: round(value * 1e9) for key, value in seconds.items()}


def test_kernels_copies_and_busy_times(trace: Path) -> None:
    expected, got = read(trace), values(trace)
    assert len(expected.launches) >= 9
    assert got[KERNEL_LAUNCHES] == expected.launches
    assert in_ns(got[KERNEL_TIME]) == expected.kernel_ns
    assert in_ns(got[MEMCPY_TIME]) == expected.copy_ns
    assert got[MEMCPY_SIZE] == expected.copy_bytes
    assert in_ns(got[DEVICE_BUSY_TIME]) == expected.busy_ns()


def test_launch_delays(trace: Path) -> None:
    expected, got = read(trace), values(trace)
    ((key, point),) = got[KERNEL_LAUNCH_DELAY].items()
    assert isinstance(point, HistogramPoint)
    assert key == (0,)
    buckets = [0] * (len(SHORT_BOUNDS_S) + 1)
    for delay_ns in expected.delays_ns:
        buckets[sum(delay_ns / 1e9 > bound for bound in SHORT_BOUNDS_S)] += 1
    assert point.count == len(expected.delays_ns) > 50
    assert list(point.bucket_counts) == buckets
    assert round(point.sum * 1e9) == sum(expected.delays_ns)


def test_steps(trace: Path) -> None:
    expected, got = read(trace), values(trace)
    points = list(got.get(STEP_DURATION, {}).values())
    assert [round(point.sum * 1e9) for point in points] == (
        [sum(expected.steps_ns)] if expected.steps_ns else []
    )
