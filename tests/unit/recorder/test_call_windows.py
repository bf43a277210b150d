"""Windows of requests: which are recorded together, when they end, what becomes of failures and forks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from otel_torchprof.recorder.call_windows import MAX_WINDOW_S, Call, CallWindows
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.schedule import IntervalSchedule, parse_schedule
from otel_torchprof.recorder.step_details import NO_DETAILS, StepDetails
from otel_torchprof.recorder.window import Window

if TYPE_CHECKING:
    from otel_torchprof.recording import Recording


@dataclass(eq=False)
class Request:
    """A context whose end can be said."""

    span: bytes
    trace_flags: int = 1
    is_root: bool = False
    links: bytes = b""
    has_ended: bool = False

    def is_over(self) -> bool:
        return self.has_ended


class FakeCapture:
    """Writes down what it is told."""

    recorded = 3

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.contexts: list[bytes] = []
        self.is_halted = False

    def start(self) -> None: ...
    def begin_step(self, number: int = -1, details: StepDetails = NO_DETAILS) -> None: ...
    def end_step(self) -> None: ...

    def add_context(self, context: bytes, trace_flags: int, *, is_root: bool, links: bytes) -> None:
        self.contexts.append(context)

    def halt(self) -> None:
        self.is_halted = True

    def stop(self) -> Recording:
        raise NotImplementedError


class Server:
    """Windows over fakes; `now_s` is the time, `current` the context of the next call."""

    def __init__(self, schedule: str) -> None:
        self.now_s = 0.0
        self.current_request: Request | None = None
        self.is_admitting = True
        self.captures: list[FakeCapture] = []
        self.delivered: list[Window] = []
        self.windows = CallWindows(
            parse_schedule(schedule),
            placer=self,
            open_capture=self._open,
            deliver=self.delivered.append,
            make_ready=lambda: None,
            clock_s=lambda: self.now_s,
        )

    def current(self) -> Request | None:
        return self.current_request

    def admit(self, request: Request, /) -> Request | None:
        return request if self.is_admitting else None

    def begin(self, request: Request | None) -> Call | None:
        self.current_request = request
        call = self.windows.call_begins()
        if call is not None:
            self.windows.call_began(call)
        return call

    def call(self, request: Request | None) -> bool:
        """A whole call; whether it was recorded."""
        call = self.begin(request)
        if call is not None:
            self.windows.call_ends(call)
        return call is not None

    def _open(self, path: Path | None) -> FakeCapture:
        self.captures.append(FakeCapture(path))
        return self.captures[-1]


@pytest.fixture(autouse=True)
def no_failures() -> Iterator[None]:
    reasons = ("a call was not recorded", "recorded calls were not handed on")
    before = [failures.count(reason) for reason in reasons]
    yield
    assert [failures.count(reason) for reason in reasons] == before


def test_a_window_has_all_calls_of_its_request_and_ends_with_it() -> None:
    server = Server("active=1")
    first, second = Request(b"first"), Request(b"second")
    assert [server.call(first) for _ in range(3)] == [True, True, True]
    assert not server.call(second)  # the window is full, and waits for the first
    assert server.delivered == []
    first.has_ended = True
    server.windows.check()
    assert len(server.delivered) == 1
    assert server.captures[0].is_halted
    assert server.captures[0].contexts == [b"first"] * 3
    assert server.call(second)
    assert len(server.captures) == 2


def test_requests_overlap_in_a_window() -> None:
    server = Server("active=2,repeat=1")
    first, second = Request(b"first", has_ended=True), Request(b"second", has_ended=True)
    calls = [server.begin(first), server.begin(second)]
    assert all(calls)
    assert not server.call(Request(b"third"))
    for call in calls:
        assert server.delivered == []
        assert call is not None
        server.windows.call_ends(call)
    assert len(server.delivered) == len(server.captures) == 1


def test_a_request_that_never_ends_holds_no_window_for_good() -> None:
    server = Server("active=1000")
    call = server.begin(Request(b"stream"))
    assert call is not None
    server.now_s = MAX_WINDOW_S - 1
    server.windows.check()
    assert server.delivered == []
    server.now_s = MAX_WINDOW_S
    server.windows.check()
    assert len(server.delivered) == 1
    server.windows.call_ends(call)  # of a window that is gone
    assert server.windows.recorded == FakeCapture.recorded


def test_what_is_not_wanted_takes_no_turn_of_the_schedule() -> None:
    server = Server("active=1,repeat=1")
    assert not server.call(None)  # not sampled
    assert server.call(Request(b"sampled", has_ended=True))
    assert not server.call(Request(b"late"))


def test_a_call_that_is_not_admitted_opens_no_window() -> None:
    server = Server("active=1")
    server.is_admitting = False
    assert not server.call(Request(b"refused"))
    assert server.captures == []


def test_closing_hands_on_what_there_is_and_begins_no_other() -> None:
    server = Server("active=1000")
    assert server.call(Request(b"open"))
    server.windows.close(1.0)
    server.windows.close(1.0)
    assert len(server.delivered) == 1
    assert not server.call(Request(b"late"))


def test_in_a_forked_child_the_window_is_the_parents() -> None:
    server = Server("active=1000")
    assert server.call(Request(b"parent"))
    server.windows.start_over(parse_schedule("active=1"))
    assert server.delivered == []
    assert not server.captures[0].is_halted
    assert server.call(Request(b"child"))
    assert len(server.captures) == 2


def test_between_intervals_nobody_needs_to_tell_of_calls() -> None:
    now_s = 0.0
    server = Server("active=1")
    server.windows.start_over(IntervalSchedule(600.0, clock=lambda: now_s))
    for number in range(IntervalSchedule.FIRST_STEP):
        assert server.windows.is_due
        assert not server.call(Request(b"early %d" % number, has_ended=True))
    third = Request(b"third")
    assert server.call(third)
    assert server.windows.is_due  # for further calls of the third
    third.has_ended = True
    server.windows.check()
    assert not server.windows.is_due
    assert not server.call(Request(b"between"))
    now_s = 600.0
    assert server.windows.is_due
    assert server.call(Request(b"next"))
