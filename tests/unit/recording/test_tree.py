"""The tree against a slow and plain reading of its rules, on any slices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.recording import EventFlags, Recording, RecordingBuilder
from tests.support.recordings import small_times

_flags = st.sampled_from([EventFlags(0), EventFlags.ASYNC, EventFlags.OTHER_THREAD, EventFlags.UNFINISHED])
_slices = st.tuples(st.integers(0, 1), small_times, small_times, _flags)
_ASYNC = EventFlags.ASYNC | EventFlags.OTHER_THREAD


@st.composite
def slices(draw: st.DrawFn) -> Recording:
    """Slices on two tracks: nested, side by side, crossing, equal, empty, async."""
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_track()
    for track, a_ns, b_ns, flags in draw(st.lists(_slices, max_size=25)):
        builder.add_event("slice", min(a_ns, b_ns), max(a_ns, b_ns), track=track, flags=flags)
    return builder.finish()


@st.composite
def nested(draw: st.DrawFn) -> Recording:
    """Slices of one track that begin and end like calls."""
    builder = RecordingBuilder()
    builder.add_track()
    now_ns = 0
    open_starts: list[int] = []
    for begins in draw(st.lists(st.booleans(), max_size=40)):
        now_ns += draw(st.integers(0, 3))
        if begins:
            open_starts.append(now_ns)
        elif open_starts:
            builder.add_event("call", open_starts.pop(), now_ns)
    while open_starts:
        builder.add_event("call", open_starts.pop(), now_ns)
    return builder.finish()


def _plain_parent(recording: Recording, row: int) -> int:
    events = recording.events
    for candidate in reversed(range(row)):
        if (
            events.track[candidate] == events.track[row]
            and not events.flags[candidate] & _ASYNC
            and events.end_ns[candidate] >= events.end_ns[row]
        ):
            return candidate
    return -1


def _covered_ns(intervals: list[tuple[int, int]]) -> int:
    return len({moment for start_ns, end_ns in intervals for moment in range(start_ns, end_ns)})


def _intervals(recording: Recording, rows: list[int]) -> list[tuple[int, int]]:
    events = recording.events
    return [(int(events.start_ns[row]), int(events.end_ns[row])) for row in rows]


@given(slices())
def test_parents_and_self_times_follow_the_rules(recording: Recording) -> None:
    tree = recording.tree()
    events = recording.events
    parents = [_plain_parent(recording, row) for row in range(len(recording))]
    assert tree.parent.tolist() == parents
    for row in range(len(recording)):
        children = [child for child, parent in enumerate(parents) if parent == row]
        assert tree.children(row).tolist() == children
        synchronous = [child for child in children if not events.flags[child] & _ASYNC]
        duration_ns = int(events.end_ns[row] - events.start_ns[row])
        assert tree.self_ns[row] == duration_ns - _covered_ns(_intervals(recording, synchronous))
        assert tree.self_ns[row] >= 0
        for ancestor in tree.ancestors(row):
            assert events.start_ns[ancestor] <= events.start_ns[row]
            assert events.end_ns[ancestor] >= events.end_ns[row]
    assert tree.roots().tolist() == [row for row, parent in enumerate(parents) if parent == -1]


@given(nested())
def test_self_times_of_calls_add_up_to_the_time_covered(recording: Recording) -> None:
    tree = recording.tree()
    assert tree.self_ns.sum() == _covered_ns(_intervals(recording, tree.roots().tolist()))


def test_ancestors_go_outwards_and_the_tree_is_made_once() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    for depth in range(4):
        builder.add_event("call", depth, 10 - depth)
    recording = builder.finish()
    assert list(recording.tree().ancestors(3)) == [2, 1, 0]
    assert recording.tree() is recording.tree()
    with pytest.raises(IndexError, match="no event 4"):
        recording.tree().children(4)
    with pytest.raises(IndexError, match="no event -1"):
        recording.tree().children(-1)
