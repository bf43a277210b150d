"""Which steps figures of a step are of, and which one went on when."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.steps import NO_STEP, Lack, StepTimes
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, StepFlags, TrackKind
from tests.support.recordings import small_times


def with_steps(*steps: tuple[int, int, StepFlags]) -> StepTimes:
    builder = RecordingBuilder()
    builder.add_track("main")
    for number, (start_ns, end_ns, flags) in enumerate(steps):
        builder.add_step(start_ns, end_ns, number, flags=flags | StepFlags.HAS_NUMBER)
    return StepTimes.of(builder.finish())


WHOLE, PARTIAL, UNFINISHED = StepFlags(0), StepFlags.PARTIAL, StepFlags.UNFINISHED


def test_steps_that_were_cut_off_do_not_count() -> None:
    times = with_steps((0, 900, PARTIAL), (900, 910, WHOLE), (910, 940, WHOLE), (940, 2000, UNFINISHED))
    assert times.counts.tolist() == [False, True, True, False]
    assert (times.counted, times.left_out, times.median_ns, times.slowest(5)) == (2, 2, 20, [2, 1])


@pytest.mark.parametrize("flags", [PARTIAL, UNFINISHED])
def test_they_count_where_no_step_is_whole(flags: StepFlags) -> None:
    times = with_steps((0, 10, flags), (10, 30, flags))
    assert (times.counted, times.left_out, times.median_ns, times.slowest(1)) == (2, 0, 15, [1])


def test_a_recording_without_steps_has_none() -> None:
    times = StepTimes.of(Recording.empty())
    assert (len(times), times.counted, times.left_out, times.median_ns, times.slowest(3)) == (0, 0, 0, 0, [])
    assert times.at(np.array([1, 2])).tolist() == [NO_STEP, NO_STEP]


@given(st.lists(small_times, min_size=1, max_size=8), st.lists(small_times, max_size=8))
def test_a_moment_belongs_to_the_step_that_goes_on(bounds: list[int], moments: list[int]) -> None:
    steps = list(pairwise(sorted(bounds)))
    times = with_steps(*((start, end, WHOLE) for start, end in steps))
    expected = [
        next((step for step, (start, end) in enumerate(steps) if start <= moment < end), NO_STEP)
        for moment in moments
    ]
    assert times.at(np.array(moments, dtype=np.int64)).tolist() == expected


@pytest.mark.parametrize(
    ("lengths_ns", "outlier"),
    [
        ((10, 10, 20, 10), 2),
        ((10, 10, 19, 10), None),
        ((10, 30), None),  # nobody knows which of the two is usual
        ((0, 0, 1), 2),
        ((0, 0, 0), None),
        ((), None),
    ],
)
def test_an_outlier_took_twice_as_long_as_usual(lengths_ns: tuple[int, ...], outlier: int | None) -> None:
    bounds = [sum(lengths_ns[:count]) for count in range(len(lengths_ns) + 1)]
    assert with_steps(*((start, end, WHOLE) for start, end in pairwise(bounds))).outlier == outlier


class Loop:
    """Steps of 100 ns, each with as many ops on its thread as given."""

    def __init__(self, *ops: int) -> None:
        self.builder = RecordingBuilder()
        self.builder.add_track("main", process_id=1)
        for step, count in enumerate(ops):
            at = step * 100
            self.builder.add_step(at, at + 100, step)
            self.builder.add_event(f"ProfilerStep#{step}", at, at + 100, kind=EventKind.USER)
            for op in range(count):
                self.builder.add_event("op", at + op, at + op + 1)

    def add_thread(self, *begins_ns: int, process_id: int = 1, kind: TrackKind = TrackKind.THREAD) -> Loop:
        track = self.builder.add_track("other", kind, process_id=process_id)
        for begin_ns in begins_ns:
            self.builder.add_event("op", begin_ns, begin_ns + 1, track=track)
        return self

    def incomplete(self, reason: str = "byte_cap") -> list[int]:
        self.builder.add_drops(reason, 1)
        lacks = StepTimes.of(self.builder.finish()).lacks
        return [step for step, lack in enumerate(lacks) if lack is Lack.INCOMPLETE]


def test_where_events_were_dropped_steps_are_known_up_to_the_last_event() -> None:
    assert Loop(9, 9, 9, 9).incomplete() == [3]  # there might have been more in it
    assert Loop(9, 9, 4, 0, 0).incomplete() == [2, 3, 4]
    assert Loop(4, 0, 0).incomplete() == [0, 1, 2]
    assert Loop(0, 0).incomplete() == [0, 1]


@pytest.mark.parametrize("reason", ["byte_cap", "disk_full", "memory_limit"])
def test_a_gap_in_the_middle_is_seen_by_how_little_there_is(reason: str) -> None:
    assert Loop(9, 2, 0, 9, 8, 9).incomplete(reason) == [1, 2, 5]


@pytest.mark.parametrize("reason", ["unmatched_end", "payload_too_large", "start_after_stop"])
def test_some_reasons_leave_no_gap(reason: str) -> None:
    assert Loop(9, 9, 4, 9).incomplete(reason) == []


def test_the_first_thread_that_worked_in_each_step_and_ends_decides() -> None:
    assert Loop(9, 9, 9, 9, 9, 9).add_thread(50, 150, 250).incomplete() == [2, 3, 4, 5]
    assert Loop(9, 9, 9, 9, 9, 9).add_thread(50).incomplete() == [5]
    assert Loop(9, 9, 9, 9, 9, 9).add_thread(50, 150, 250, process_id=2).incomplete() == [5]
    assert Loop(9, 9, 9, 9, 9, 9).add_thread(50, 150, 250, kind=TrackKind.STREAM).incomplete() == [5]


def test_incomplete_steps_do_not_count_even_where_no_other_is_whole() -> None:
    loop = Loop(9, 9, 4, 0)
    times = StepTimes.of(loop.builder.finish())
    assert times.counts.tolist() == [True, True, True, False]  # nothing was dropped; the last was left over
    flags = [WHOLE, PARTIAL, WHOLE]
    builder = RecordingBuilder()
    builder.add_track("main")
    for step, flag in enumerate(flags):
        builder.add_step(step * 100, step * 100 + 100, step, flags=flag)
    for at in (*range(100, 120), 210):
        builder.add_event("op", at, at + 1)
    builder.add_drops("byte_cap", 1)
    times = StepTimes.of(builder.finish())
    assert times.lacks == (Lack.INCOMPLETE, Lack.PARTIAL, Lack.INCOMPLETE)
    assert times.counts.tolist() == [False, True, False]


@pytest.mark.parametrize(("dropped", "outlier"), [(0, 2), (1, None)])
def test_of_an_incomplete_step_nobody_is_sent_to_see_why(dropped: int, outlier: int | None) -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    for step, (start_ns, end_ns) in enumerate([(0, 10), (10, 20), (20, 90)]):
        builder.add_step(start_ns, end_ns, step)
    builder.add_drops("byte_cap", dropped)
    times = StepTimes.of(builder.finish())
    assert (times.counted, times.outlier) == (3, outlier)


@pytest.mark.parametrize("problem", ["array_not_closed", "last_event_cut_off", "compressed_data_cut_off"])
def test_of_a_trace_that_was_cut_off_anything_may_be_missing(problem: str) -> None:
    recording = Loop(9, 9, 9).builder.finish()
    times = StepTimes.of(recording, {problem: 1})
    assert times.lacks == (Lack.INCOMPLETE,) * 3
    assert times.counts.all()  # how long each took is known
    assert StepTimes.of(recording, {"crossing_slices": 1}).lacks == (Lack.NOTHING,) * 3


@pytest.mark.parametrize(
    ("ops", "last"),
    [
        ((9, 9, 0), Lack.PARTIAL),
        ((9, 8, 3), Lack.PARTIAL),
        ((9, 8, 4), Lack.NOTHING),  # half of what the smallest has
        ((0, 0, 0), Lack.NOTHING),  # nothing was recorded but steps
        ((0,), Lack.NOTHING),
    ],
)
def test_a_last_step_with_next_to_nothing_in_it_is_what_was_left_over(
    ops: tuple[int, ...], last: Lack
) -> None:
    *others, found = StepTimes.of(Loop(*ops).builder.finish()).lacks
    assert found is last
    assert set(others) <= {Lack.NOTHING}
