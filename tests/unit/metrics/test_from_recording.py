"""All metrics of one recording: sound whatever it holds, few enough, and in bounded memory."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given

from otel_torchprof.importers import load
from otel_torchprof.metrics.families import HistogramPoint, MetricFamily, NumberPoint, count_series
from otel_torchprof.metrics.from_recording import families_from_recording
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, TrackKind
from otel_torchprof.semconv_metrics import EVENTS_RECORDED, METRICS, OP_DURATION
from tests.support.recordings import recordings
from tests.support.test_data import KINETO, needs_data

MAX_SERIES = 1500
# Without what says which operators ran, and when, but is no trace.
TRACES = sorted(set(KINETO.glob("*.json.gz")) - set(KINETO.glob("*_execution_trace.json.gz")))


def assert_sound(families: list[MetricFamily]) -> None:
    """What every sink relies on."""
    names = [family.metric.name for family in families]
    assert len(set(names)) == len(names)
    for family in families:
        assert family.metric in METRICS
        seen: set[frozenset[tuple[str, str | int]]] = set()
        for point in family.points:
            assert set(point.attributes) <= set(family.metric.attributes)
            seen.add(frozenset(point.attributes.items()))
            assert point.start_unix_ns >= 0
            if isinstance(point, HistogramPoint):
                assert family.metric.kind == "histogram"
                assert len(point.bucket_counts) == len(family.metric.bounds) + 1
                assert sum(point.bucket_counts) == point.count > 0
                assert point.exponential is not None
                assert sum(point.exponential.counts) + point.exponential.zero_count == point.count
            else:
                assert isinstance(point, NumberPoint)
                assert math.isfinite(point.value)
                assert family.metric.kind != "counter" or point.value >= 0
        assert len(seen) == len(family.points) > 0


@given(recordings())
def test_any_recording_has_sound_metrics(recording: Recording) -> None:
    assert_sound(families_from_recording(recording, durations=True))


def test_an_empty_recording_has_no_events() -> None:
    (family,) = families_from_recording(Recording.empty())
    assert (
        family.metric.name,
        [point.value for point in family.points if isinstance(point, NumberPoint)],
    ) == (
        EVENTS_RECORDED,
        [0],
    )


def busy_recording(events: int) -> Recording:
    """Kernels of a thousand names, each launched by an operator of a thousand."""
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_track("stream", TrackKind.STREAM, device=0)
    for index in range(events // 2):
        builder.add_event(f"aten::op{index % 1000}", 100 * index, 100 * index + 50)
        builder.add_event(
            f"void kernel_{index % 1000}_x<int>()",
            100 * index,
            100 * index + 70,
            track=1,
            kind=EventKind.KERNEL,
        )
    return builder.finish()


def test_ten_thousand_names_are_few_series() -> None:
    families = families_from_recording(busy_recording(4000))
    assert_sound(families)
    assert count_series(families) < MAX_SERIES


def test_memory_is_bounded_by_columns() -> None:
    """A few columns, and no object an event."""
    small, large = busy_recording(4_000), busy_recording(40_000)
    for recording in (small, large):
        recording.tree()
    families_from_recording(small)
    peaks = []
    for recording in (small, large):
        tracemalloc.start()
        families_from_recording(recording)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert (peaks[1] - peaks[0]) / (len(large) - len(small)) < 300


@needs_data
@pytest.mark.parametrize("trace", TRACES, ids=lambda path: path.name.partition(".")[0])
def test_real_traces_are_few_series(trace: Path) -> None:
    recording, _report = load(trace)
    families = families_from_recording(recording)
    assert_sound(families)
    assert OP_DURATION not in {family.metric.name for family in families}
    assert count_series(families) < MAX_SERIES
