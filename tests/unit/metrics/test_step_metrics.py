"""Steps, waits for data, memory, counters and drops of recordings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from otel_torchprof.metrics.families import MetricFamily, NumberPoint
from otel_torchprof.metrics.memory_metrics import memory_families
from otel_torchprof.metrics.recorder_metrics import counter_families, recorder_families
from otel_torchprof.metrics.step_metrics import step_families
from otel_torchprof.recording import (
    COUNTER_DTYPE,
    MEMORY_DTYPE,
    EventKind,
    MemoryFlags,
    Recording,
    RecordingBuilder,
    StepFlags,
    StepPhase,
)
from otel_torchprof.semconv_metrics import (
    CPU_COUNT,
    DATALOADER_WAIT,
    DEVICE_MEMORY_USAGE,
    EVENTS_DROPPED,
    EVENTS_RECORDED,
    MEMORY_OOM,
    STEP_DURATION,
    STEP_LAST_TIMESTAMP,
    STEP_NUMBER,
)

S = 1_000_000_000
CUDA = 1


def values(families: list[MetricFamily], metric: str) -> dict[tuple[Any, ...], Any]:
    (family,) = (family for family in families if family.metric.name == metric)
    return {
        tuple(point.attributes.get(name) for name in family.metric.attributes): (
            point.value if isinstance(point, NumberPoint) else (point.count, point.sum)
        )
        for point in family.points
    }


def steps() -> Recording:
    builder = RecordingBuilder()
    builder.add_track()
    numbered = StepFlags.HAS_NUMBER
    builder.add_step(0, 2 * S, 1, phase=StepPhase.TRAIN, flags=numbered | StepFlags.PARTIAL)
    builder.add_step(2 * S, 3 * S, 2, phase=StepPhase.TRAIN, flags=numbered)
    builder.add_step(3 * S, 5 * S, 3, phase=StepPhase.EVAL, flags=numbered)
    builder.add_step(5 * S, 9 * S, 4, flags=numbered)
    builder.add_step(9 * S, 12 * S, 5, phase=StepPhase.TRAIN, flags=numbered | StepFlags.UNFINISHED)
    loader = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    for start_ns, end_ns in ((2 * S, 2 * S + S // 2), (3 * S, 3 * S + S // 4), (20 * S, 21 * S)):
        builder.add_event(loader, start_ns, end_ns, kind=EventKind.USER)
    builder.add_event("enumerate(DataLoader)#mine", 0, S, kind=EventKind.USER)
    return builder.finish()


def test_whole_steps_by_phase() -> None:
    families = step_families(steps(), 0)
    assert values(families, STEP_DURATION) == {("train",): (1, 1.0), ("eval",): (1, 2.0), (None,): (1, 4.0)}
    assert values(families, STEP_LAST_TIMESTAMP) == {(): 9.0}
    assert values(families, STEP_NUMBER) == {(): 5}


def test_waits_for_data_by_phase() -> None:
    assert values(step_families(steps(), 0), DATALOADER_WAIT) == {
        ("train",): (1, 0.5),
        ("eval",): (1, 0.25),
        (None,): (1, 1.0),
    }


def test_a_recording_without_steps_says_nothing_of_them() -> None:
    families = step_families(Recording.empty(), 0)
    assert [values(families, name) for name in (STEP_DURATION, STEP_LAST_TIMESTAMP, STEP_NUMBER)] == [{}] * 3


def memory(rows: list[tuple[int, int, int, int, int, MemoryFlags]]) -> Recording:
    builder = RecordingBuilder()
    builder.add_track()
    records = np.zeros(len(rows), dtype=MEMORY_DTYPE)
    records["event"] = -1
    for place, row in enumerate(rows):
        names = ("time_ns", "device_type", "device", "total_allocated_bytes", "total_reserved_bytes", "flags")
        for name, value in zip(names, row, strict=True):
            records[place][name] = value
    builder.add_memory(records)
    return builder.finish()


def test_memory_as_it_was_last() -> None:
    none = MemoryFlags(0)
    families = memory_families(
        memory(
            [
                (1, CUDA, 0, 100, 500, none),
                (2, CUDA, 0, 400, 500, none),
                (3, CUDA, 0, 300, 600, none),
                (4, CUDA, 1, 7, -1, none),
                (5, 0, 0, 9999, 9999, none),
                (6, CUDA, 0, -1, -1, MemoryFlags.OUT_OF_MEMORY),
                (7, CUDA, 0, -1, -1, MemoryFlags.OUT_OF_MEMORY),
            ]
        ),
        0,
    )
    assert values(families, DEVICE_MEMORY_USAGE) == {
        (0, "allocated"): 300,
        (0, "reserved"): 600,
        (0, "peak"): 400,
        (1, "allocated"): 7,
        (1, "peak"): 7,
    }
    assert values(families, MEMORY_OOM) == {(0,): 2}


def counted(*, with_steps: bool) -> Recording:
    builder = RecordingBuilder()
    builder.add_track()
    if with_steps:
        builder.add_step(0, 10, 1)
    records = np.zeros(3, dtype=COUNTER_DTYPE)
    records["event"] = -1
    records["time_ns"] = [5, 8, 20]
    records["value"] = [3.0, 4.0, 100.0]
    records["name"] = builder.add_name("page-faults", "count")
    builder.add_counters(records)
    return builder.finish()


@pytest.mark.parametrize(("with_steps", "value"), [(True, 7), (False, 107)])
def test_counters_of_steps_or_of_the_whole(with_steps: bool, value: int) -> None:
    families = counter_families(counted(with_steps=with_steps), 0)
    assert values(families, CPU_COUNT) == {("page-faults",): value}


def test_what_was_recorded_and_what_was_lost() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("aten::add", 0, 1)
    builder.add_drops("byte_cap", 4)
    families = recorder_families(builder.finish(), 0)
    assert values(families, EVENTS_RECORDED) == {(): 1}
    assert values(families, EVENTS_DROPPED) == {("byte_cap",): 4}
