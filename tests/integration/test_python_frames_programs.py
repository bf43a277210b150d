"""The calls that are recorded are those that a tracer in plain Python sees."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_torchprof.recording import EventFlags, Recording
from tests.support import frame_programs
from tests.support.call_trees import Call, PlainTracer, record, recorded_roots
from tests.support.frame_programs import PROGRAMS

FILE = frame_programs.__file__

# How often these wait for a lock is not up to them: only their own functions are the same every time.
CONCURRENT = {"threads", "thread_pool"}


def calls_of_programs(roots: list[Call], *, own_only: bool) -> list[Call]:
    found = [call for root in roots for call in root.within(FILE)]
    return [call.only_of(FILE) for call in found] if own_only else found


def in_any_order(calls: list[Call]) -> list[list[tuple[int, str, str, str]]]:
    return sorted(call.lines() for call in calls)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_tree_is_the_plain_tracers(name: str) -> None:
    program = PROGRAMS[name]
    program()  # imports and caches are the same for both then
    tracer = PlainTracer()
    tracer.run(program)
    recording = record(program)
    own_only = name in CONCURRENT
    expected = calls_of_programs(tracer.roots(), own_only=own_only)
    recorded = calls_of_programs(recorded_roots(recording), own_only=own_only)
    assert in_any_order(recorded) == in_any_order(expected)
    assert sum(1 for call in recorded for _ in call.walk()) > 2
    assert not recording.drops
    assert not recording.problems
    assert_slices_nest(recording)


def test_nothing_of_a_program_is_unfinished() -> None:
    recording = record(PROGRAMS["exceptions"])
    in_program = [
        row
        for row in range(len(recording))
        if recording.overload_name(int(recording.events.name[row])).startswith(FILE)
    ]
    assert in_program
    assert not recording.events.flags[in_program].any()


def assert_slices_nest(recording: Recording) -> None:
    """Whatever two events of a track overlap, one holds the other."""
    events = recording.events
    open_until: dict[int, list[int]] = {}
    for row in range(len(recording)):
        if events.flags[row] & (EventFlags.ASYNC | EventFlags.OTHER_THREAD):
            continue
        start_ns, end_ns = int(events.start_ns[row]), int(events.end_ns[row])
        stack = open_until.setdefault(int(events.track[row]), [])
        while stack and stack[-1] <= start_ns < end_ns:
            stack.pop()
        assert not stack or end_ns <= stack[-1]
        stack.append(end_ns)


# What a made-up program does: calls, C callbacks, generators that are resumed in turn or left open, and
# exceptions that are caught here or further out.
_actions = st.recursive(
    st.sampled_from(["c", "raise"]),
    lambda inner: st.tuples(
        st.sampled_from(["call", "callback", "generator", "catch", "leave_open"]), st.lists(inner, max_size=4)
    ),
    max_leaves=25,
)
Action = str | tuple[str, list["Action"]]


class _Failure(Exception):
    pass


def _perform(action: Action) -> None:
    if action == "c":
        len("c")
    elif action == "raise":
        raise _Failure
    elif isinstance(action, tuple):
        kind, inner = action
        _COMPOUND[kind](inner)


def _call(inner: list[Action]) -> None:
    for action in inner:
        _perform(action)


def _callback(inner: list[Action]) -> None:
    def key(action: Action) -> int:
        _perform(action)
        return 0

    sorted(inner, key=key)


def _generate(inner: list[Action]):  # type: ignore[no-untyped-def]
    for action in inner:
        _perform(action)
        yield action


def _generator(inner: list[Action]) -> None:
    first, second = _generate(inner), _generate(inner)
    for _ in inner:
        next(first)
        next(second)


def _leave_open(inner: list[Action]) -> None:
    generator = _generate(inner)
    next(generator, None)
    generator.close()


def _catch(inner: list[Action]) -> None:
    try:
        _call(inner)
    except _Failure:
        "caught"


_COMPOUND: dict[str, Callable[[list[Action]], None]] = {
    "call": _call,
    "callback": _callback,
    "generator": _generator,
    "leave_open": _leave_open,
    "catch": _catch,
}


@settings(deadline=None, max_examples=25)
@given(st.lists(_actions, max_size=6))
def test_slices_never_cross_whatever_a_program_does(actions: list[Action]) -> None:
    def program() -> None:
        _catch(actions)

    tracer = PlainTracer()
    tracer.run(program)
    recording = record(program)
    (expected,) = [call for root in tracer.roots() for call in root.within(__file__)]
    (test,) = [call for root in recorded_roots(recording) for call in root.within(__file__)]
    recorded = [call for call in test.walk() if call.name == expected.name]
    assert [call.lines() for call in recorded] == [expected.lines()]
    assert_slices_nest(recording)
    assert not recording.drops
