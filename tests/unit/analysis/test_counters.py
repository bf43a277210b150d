"""Sums of counters: by step, by thread, over spans by name."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.counters import counter_totals, unit_of
from otel_torchprof.recording import COUNTER_DTYPE, Recording, RecordingBuilder, StepFlags
from tests.support.counted_recordings import counted_recording


def test_sums_of_a_small_recording() -> None:
    totals = counter_totals(counted_recording())
    assert totals
    assert totals.counters == ("page-faults", "task-clock")
    assert totals.estimated == frozenset()
    np.testing.assert_array_equal(totals.by_step, [[7, 950], [4, 990.4]])
    assert totals.tracks == (0, 1)
    np.testing.assert_array_equal(totals.by_thread, [[1_109, 1_940.4], [2, np.nan]])
    assert (totals.events, totals.calls) == (("forward", "aten::mm"), (1, 1))
    np.testing.assert_array_equal(totals.by_event, [[3, 700], [2, np.nan]])
    np.testing.assert_array_equal(totals.total, [1_111, 1_940.4])


def test_an_event_is_one_call_however_many_counters_and_readings_it_has() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("main")
    events = [builder.add_event(name, at, at + 5, track=track) for at, name in enumerate(["b", "a", "b"])]
    faults, cycles = builder.add_name("page-faults", "count"), builder.add_name("cycles", "count")
    rows = [
        (9, event, track, name, 2.0) for event in events for name in (faults, cycles) for _reading in range(2)
    ]
    builder.add_counters(np.array(rows, dtype=COUNTER_DTYPE))
    totals = counter_totals(builder.finish())
    assert dict(zip(totals.events, totals.calls, strict=True)) == {"a": 1, "b": 2}
    assert dict(zip(totals.events, totals.by_event[:, 0].tolist(), strict=True)) == {"a": 4.0, "b": 8.0}


def test_what_was_scaled_up_is_named() -> None:
    assert counter_totals(counted_recording(estimated=True)).estimated == {"task-clock"}


def test_a_recording_without_counters_has_no_totals() -> None:
    totals = counter_totals(Recording.empty())
    assert not totals
    assert totals.by_thread.shape == (0, 0)


@pytest.mark.parametrize(
    ("counter", "unit"), [("task-clock", "ns"), ("cpu-clock:u", "ns"), ("page-faults", ""), ("r01", "")]
)
def test_clocks_have_a_unit(counter: str, unit: str) -> None:
    assert unit_of(counter) == unit


@given(
    lengths=st.lists(st.integers(1, 5), min_size=1, max_size=5),
    readings=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 1), st.integers(0, 1 << 40)), max_size=30),
)
def test_each_reading_counts_in_one_step_at_most_and_in_its_thread(
    lengths: list[int], readings: list[tuple[int, int, int]]
) -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_track("worker")
    end_ns = 3
    for number, length in enumerate(lengths):
        builder.add_step(end_ns, end_ns + length, number, flags=StepFlags.HAS_NUMBER)
        end_ns += length
    name = builder.add_name("cycles", "count")
    rows = [(time_ns, -1, track, name, value) for time_ns, track, value in readings]
    builder.add_counters(np.array(rows, dtype=COUNTER_DTYPE))
    totals = counter_totals(builder.finish())
    if not readings:
        assert not totals
        return
    # Steps that follow each other take every reading after the start of the first up to the end of the last.
    inside = sum(value for time_ns, _track, value in readings if 3 < time_ns <= end_ns)
    assert np.nansum(totals.by_step) == inside
    assert totals.total.tolist() == [sum(value for _time_ns, _track, value in readings)]
