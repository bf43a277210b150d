"""Which steps figures of a step are of, and which one went on when."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.steps import NO_STEP, StepTimes
from otel_torchprof.recording import Recording, RecordingBuilder, StepFlags
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
