"""Collectives: what they are called, how long they took, and how long they waited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from otel_torchprof.importers import load
from otel_torchprof.metrics.collective_metrics import TOP_COLLECTIVES, collective_families, collective_name
from otel_torchprof.metrics.families import HistogramPoint
from otel_torchprof.recording import (
    ARGUMENTS_DTYPE,
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    TrackKind,
)
from otel_torchprof.semconv_metrics import (
    COLLECTIVE_DURATION,
    COLLECTIVE_GROUP,
    COLLECTIVE_NAME,
    COLLECTIVE_WAIT,
)
from tests.support.test_data import KINETO, needs_data

MS = 1_000_000
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def points(recording: Recording, metric: str) -> dict[tuple[Any, Any], HistogramPoint]:
    (family,) = (one for one in collective_families(recording, 5) if one.metric.name == metric)
    found: dict[tuple[Any, Any], HistogramPoint] = {}
    for point in family.points:
        assert isinstance(point, HistogramPoint)
        assert point.start_unix_ns == 5
        found[point.attributes[COLLECTIVE_NAME], point.attributes.get(COLLECTIVE_GROUP)] = point
    return found


def sums_ms(recording: Recording, metric: str) -> dict[tuple[Any, Any], tuple[int, float]]:
    return {key: (point.count, round(point.sum * 1e3, 6)) for key, point in points(recording, metric).items()}


class Stream:
    """A builder of recordings with a thread and one stream, on which collectives follow each other."""

    def __init__(self) -> None:
        self.builder = RecordingBuilder()
        self.builder.add_track("main")
        self.builder.add_track("stream 20", TrackKind.STREAM, thread_id=20, device=0)
        self._now_ns = 0

    def collective(
        self, duration_ms: int, said: Mapping[str, object] | None = None, *, name: str = ALL_REDUCE
    ) -> int:
        start_ns = self._now_ns
        self._now_ns += duration_ms * MS
        event = self.builder.add_event(name, start_ns, self._now_ns, track=1, kind=EventKind.KERNEL)
        if said is not None:
            record = np.zeros(1, dtype=ARGUMENTS_DTYPE)
            record["event"], record["text"] = event, self.builder.add_name(json.dumps(dict(said)))
            self.builder.add_arguments(record)
        return event


@pytest.mark.parametrize(
    ("recorded", "name"),
    [
        (ALL_REDUCE, "all_reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)", "send_recv"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgs)", "reduce_scatter"),
        ("ncclAllGatherRingLLKernel_copy_i8(ncclColl)", "all_gather"),
        ("ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)", "generic"),
        ("void rcclGenericKernel<1, false>(ncclDevKernelArgsStorage<4096ul>)", "generic"),
        ("nccl:_all_gather_base", "all_gather"),
        ("nccl:all_to_all", "all_to_all"),
        ("gloo:all_reduce", "all_reduce"),
        ("gemm", "other"),
    ],
)
def test_names(recorded: str, name: str) -> None:
    assert collective_name(recorded) == name


def test_what_a_message_took_longer_than_the_shortest_of_its_size_is_waiting() -> None:
    stream = Stream()
    for duration_ms, elements in ((5, 100), (9, 100), (7, 100), (50, 4000), (52, 4000)):
        said = {"In msg nelems": elements, "dtype": "Float", "Process Group Description": "dp"}
        stream.collective(duration_ms, said)
    recording = stream.builder.finish()
    assert sums_ms(recording, COLLECTIVE_DURATION) == {("all_reduce", "dp"): (5, 123.0)}
    assert sums_ms(recording, COLLECTIVE_WAIT) == {("all_reduce", "dp"): (5, 0.0 + 4 + 2 + 0 + 2)}


def test_groups_are_apart_and_do_not_wait_for_each_other() -> None:
    stream = Stream()
    for duration_ms, group in ((5, "0"), (9, "1"), (6, "0")):
        stream.collective(duration_ms, {"Process Group Name": group, "In msg nelems": 1})
    recording = stream.builder.finish()
    assert sums_ms(recording, COLLECTIVE_WAIT) == {
        ("all_reduce", "0"): (2, 1.0),
        ("all_reduce", "1"): (1, 0.0),
    }


def test_without_a_size_nobody_can_say_what_was_waiting() -> None:
    stream = Stream()
    stream.collective(5)
    stream.collective(9)
    recording = stream.builder.finish()
    assert sums_ms(recording, COLLECTIVE_DURATION) == {("all_reduce", None): (2, 14.0)}
    assert sums_ms(recording, COLLECTIVE_WAIT) == {}


def test_the_scope_that_launched_a_kernel_says_what_it_was_for() -> None:
    stream = Stream()
    kernel = stream.collective(5, name="ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*)")
    stream.builder.add_event("nccl:all_to_all", 0, 100, kind=EventKind.USER)
    call = stream.builder.add_event("cudaLaunchKernel", 10, 20, kind=EventKind.RUNTIME)
    stream.builder.add_link(call, kernel, LinkType.LAUNCH)
    assert sums_ms(stream.builder.finish(), COLLECTIVE_DURATION) == {("all_to_all", None): (1, 5.0)}


def test_more_collectives_than_places_are_one() -> None:
    stream = Stream()
    for index in range(TOP_COLLECTIVES + 3):
        stream.collective(index + 1, {"Process Group Name": f"group {index}"})
    got = sums_ms(stream.builder.finish(), COLLECTIVE_DURATION)
    assert len(got) == TOP_COLLECTIVES + 1
    assert got["other", None] == (3, 1.0 + 2 + 3)


def test_no_collectives_make_no_points() -> None:
    recording = Stream().builder.finish()
    assert points(recording, COLLECTIVE_DURATION) == points(recording, COLLECTIVE_WAIT) == {}


@needs_data
def test_gloo_on_the_cpu() -> None:
    recording, _report = load(KINETO / "cpu_only_rank34.json.gz")
    durations_ns: dict[str, list[int]] = {}
    for row in range(len(recording)):
        if recording.event_name(row) == "gloo:all_reduce":
            duration_ns = int(recording.events.end_ns[row] - recording.events.start_ns[row])
            durations_ns.setdefault(repr(recording.inputs(row)), []).append(duration_ns)
    assert len(durations_ns) > 1
    calls = [duration for of_size in durations_ns.values() for duration in of_size]
    waits = [duration - min(of_size) for of_size in durations_ns.values() for duration in of_size]
    for metric, expected in ((COLLECTIVE_DURATION, calls), (COLLECTIVE_WAIT, waits)):
        ((key, point),) = points(recording, metric).items()
        assert (key, point.count) == (("all_reduce", None), len(expected))
        assert point.sum == pytest.approx(sum(expected) / 1e9)


@needs_data
def test_a_recommendation_model_of_many_gpus() -> None:
    recording, _report = load(KINETO / "sampled_rank0.json.gz")
    assert {key: count for key, (count, _sum) in sums_ms(recording, COLLECTIVE_DURATION).items()} == {
        ("all_to_all", None): 4,
        ("all_reduce", None): 4,
        ("all_gather", None): 2,
    }
