"""Self times by step: of what is open when a step begins or ends, what lies inside."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.averages import averages
from otel_torchprof.analysis.clipped_times import innermost_self_ns, innermost_until
from otel_torchprof.analysis.step_self_times import StepSelfTimes
from otel_torchprof.analysis.steps import StepTimes
from otel_torchprof.recording import EventFlags, Recording, RecordingBuilder, StepFlags
from tests.support.recordings import small_times

Span = tuple[int, int]
spans = st.tuples(small_times, small_times).map(lambda ends: (min(ends), max(ends)))
bounds = st.lists(small_times, min_size=2, max_size=6, unique=True).map(sorted)
flags = st.sampled_from([EventFlags(0), EventFlags(0), EventFlags.ASYNC, EventFlags.OTHER_THREAD])


@st.composite
def any_events(draw: st.DrawFn) -> Recording:
    """Any events on the thread of steps and on another, slices that cross among them."""
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_track("other")
    for start_ns, end_ns in draw(st.lists(spans, max_size=10)):
        name = draw(st.sampled_from("abc"))
        builder.add_event(name, start_ns, end_ns, track=draw(st.integers(0, 1)), flags=draw(flags))
    for number, (start_ns, end_ns) in enumerate(draw(st.lists(spans, max_size=4))):
        builder.add_step(start_ns, end_ns, number, flags=StepFlags.HAS_NUMBER)
    return builder.finish()


def sums(recording: Recording) -> dict[Span, int]:
    rows = np.arange(len(recording), dtype=np.int64)
    own = StepSelfTimes.of(recording, StepTimes.of(recording), rows)
    cells = list(zip(own.row.tolist(), own.step.tolist(), strict=True))
    assert len(set(cells)) == len(cells)
    return dict(zip(cells, own.self_ns.tolist(), strict=True))


def moments_of_self(recording: Recording, row: int) -> set[int]:
    """The ns in which an event is the one begun last of those that go on; all of it if it is asynchronous."""
    events = recording.events
    moments = set(range(events.start_ns[row], events.end_ns[row]))
    if not is_async(recording, row):
        for later in range(row + 1, len(recording)):
            if events.track[later] == events.track[row] and not is_async(recording, later):
                moments -= set(range(events.start_ns[later], events.end_ns[later]))
    return moments


def is_async(recording: Recording, row: int) -> bool:
    return bool(recording.events.flags[row] & (EventFlags.ASYNC | EventFlags.OTHER_THREAD))


@given(any_events())
def test_an_event_has_in_each_step_its_own_time_of_that_step(recording: Recording) -> None:
    times, found = StepTimes.of(recording), sums(recording)
    events = recording.events
    for row in range(len(recording)):
        moments = moments_of_self(recording, row)
        for step in range(len(times)):
            if events.track[row] in {one.track for one in recording.steps}:
                of_moments = times.at(np.array(sorted(moments), dtype=np.int64))
                expected = int((of_moments == step).sum())
            else:  # another thread: whole, in the step in which it begins
                expected = len(moments) if times.at(events.start_ns[[row]])[0] == step else 0
            assert found.get((row, step), 0) == expected


@given(any_events(), bounds)
def test_own_times_and_what_no_event_covers_add_up_to_the_step(events: Recording, cuts: list[int]) -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    columns = events.events
    covered: set[int] = set()
    for row in range(len(events)):
        if not is_async(events, row):
            start, end = int(columns.start_ns[row]), int(columns.end_ns[row])
            builder.add_event(events.event_name(row), start, end)
            covered |= set(range(start, end))
    for number, (start, end) in enumerate(pairwise(cuts)):
        builder.add_step(start, end, number)
    found = sums(builder.finish())
    for step, (start, end) in enumerate(pairwise(cuts)):
        self_ns = sum(ns for (_row, of_step), ns in found.items() if of_step == step)
        assert self_ns + len(set(range(start, end)) - covered) == end - start


@given(any_events())
def test_where_nothing_crosses_own_time_is_self_time(recording: Recording) -> None:
    until_ns = innermost_until(recording)
    self_ns = innermost_self_ns(recording, until_ns)
    assert (self_ns >= 0).all()
    if (until_ns == recording.events.end_ns).all():
        assert self_ns.tolist() == recording.tree().self_ns.tolist()


@given(any_events())
def test_the_table_of_a_step_has_the_same(recording: Recording) -> None:
    found = sums(recording)
    for step, one in enumerate(recording.steps):
        # The table is of the whole of a step, also where another goes on.
        others = [other for other in recording.steps if other is not one]
        if any(other.start_ns <= one.end_ns and one.start_ns <= other.end_ns for other in others):
            continue
        expected: dict[str, int] = {}
        for (row, of_step), ns in found.items():
            if of_step == step:
                name = recording.event_name(row)
                expected[name] = expected.get(name, 0) + ns
        table = averages(recording, steps=[one.number])
        assert {row.name: row.self_ns for row in table.rows if row.self_ns} == {
            name: ns for name, ns in expected.items() if ns
        }
        assert all(row.self_ns >= 0 and row.total_ns >= 0 for row in table.rows)


@pytest.fixture
def loop() -> Recording:
    """`main` holds the loop: in the second of three steps it works for itself, and ends in the third."""
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("main", 0, 2_050)
    builder.add_event("main", 900, 1_400)  # called by itself, across the bound
    for step in range(2):
        builder.add_event("op", step * 1000 + 100, step * 1000 + 400)
    builder.add_event("tail", 2_060, 2_400)
    for step in range(3):
        builder.add_step(step * 1000 + 10, (step + 1) * 1000 + 10, step)
    return builder.finish()


def test_the_table_of_a_step_has_what_was_open_already(loop: Recording) -> None:
    rows = {row.name: row for row in averages(loop, steps=[1]).rows}
    main = rows["main"]
    assert (main.calls, main.total_ns, main.self_ns, main.mean_ns) == (0, 1000, 700, 0)
    assert main.self_share == 0.7
    assert (rows["op"].calls, rows["op"].self_ns, rows["op"].self_share) == (1, 300, 0.3)


def test_the_table_of_a_step_has_no_more_than_is_inside(loop: Recording) -> None:
    rows = {row.name: row for row in averages(loop, steps=[0]).rows}
    assert (rows["main"].calls, rows["main"].total_ns, rows["main"].self_ns) == (1, 1000, 700)
    rows = {row.name: row for row in averages(loop, steps=[2]).rows}
    assert {name: (row.calls, row.total_ns, row.self_ns) for name, row in rows.items()} == {
        "tail": (1, 340, 340),
        "main": (0, 40, 40),
    }


def test_chosen_steps_that_follow_each_other_are_one_stretch(loop: Recording) -> None:
    table = averages(loop, steps=[0, 1, 2])
    assert table.steps_ns == 3000
    assert {row.name: row.self_ns for row in table.rows} == {"main": 1440, "op": 600, "tail": 340}
