"""Recording a program that serves: calls of its models, each under the span of the request that made it.

A window is a run of requests, not of steps: requests overlap. It begins with the first call of a request
that the schedule wants. All later calls of that request belong to it too, be they the tokens of a text, so it
ends only once the spans of its requests have. What other requests do meanwhile is in the recording and in no
trace.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.schedule import ProfilerAction, Schedule
from otel_torchprof.recorder.scope_observer import forget_scopes, observe_scopes
from otel_torchprof.recorder.sources.modules import is_in_module_call
from otel_torchprof.recorder.window import StepCapture, Window
from otel_torchprof.recorder.window_capture import start_capture

# A request may hold its span open for as long as it likes, a window the memory of its recording may not.
MAX_WINDOW_S = 10.0


class CallContext(Protocol):
    """The OpenTelemetry context of a call, in the recorder's plain terms."""

    @property
    def span(self) -> bytes:
        """Trace id and span id, 24 bytes; empty outside any span."""

    @property
    def trace_flags(self) -> int: ...

    @property
    def is_root(self) -> bool:
        """Whether the call itself is that span."""

    @property
    def links(self) -> bytes:
        """Further spans that the call works for, 24 bytes each."""

    def is_over(self) -> bool:
        """Whether no more calls of this context are to come, as far as is known."""


_Context = TypeVar("_Context", bound=CallContext)


class CallPlacer(Protocol[_Context]):
    """Reads contexts, on the thread that calls."""

    def current(self) -> _Context | None:
        """The context as it is; None where nothing is to be recorded. Asked at every outermost call."""

    def admit(self, context: _Context, /) -> _Context | None:
        """What a call in that context belongs under, if it is to be recorded."""


@dataclass(slots=True, eq=False)
class _CallWindow:
    capture: StepCapture
    ends_at_s: float
    known: dict[bytes, CallContext] = field(default_factory=dict)
    open_calls: int = 0
    is_full: bool = False

    @property
    def is_done(self) -> bool:
        return (
            self.is_full
            and self.open_calls == 0
            and all(context.is_over() for context in self.known.values())
        )


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A call that is being recorded."""

    window: _CallWindow
    context: CallContext


class CallWindows(Generic[_Context]):
    """Starts and stops captures around calls, as the schedule says. None of its methods raises.

    Args:
        schedule: asked once for each request, at the first of its calls.
        placer: reads the contexts.
        open_capture: makes a capture that records into a file, or with None into memory.
        deliver: takes each finished window; must not block.
        make_ready: does what the first capture needs and takes long.
        recording_path: path of the file for the window that begins with a request; None saves no files.
        clock_s: seconds, monotonic.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        placer: CallPlacer[_Context],
        open_capture: Callable[[Path | None], StepCapture],
        deliver: Callable[[Window], None],
        make_ready: Callable[[], object],
        recording_path: Callable[[int], Path] | None = None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._placer = placer
        self._open_capture = open_capture
        self._deliver = deliver
        self._make_ready = make_ready
        self._recording_path = recording_path
        self._clock_s = clock_s
        self._recorded_before = 0
        self.start_over(schedule)

    @property
    def recorded(self) -> int:
        """Events recorded so far, in all windows and the one under way."""
        window = self._window
        return self._recorded_before + (0 if window is None else window.capture.recorded)

    @property
    def is_due(self) -> bool:
        """Whether a call that begins now may be recorded, or must be counted."""
        return self._window is not None or (self._schedule is not None and self._schedule.is_due)

    def start_over(self, schedule: Schedule, *, at_first_call: Callable[[], object] | None = None) -> None:
        """Forget the window under way, without stopping it: for a forked child, where it is the parent's.

        Args:
            schedule: as when it was made.
            at_first_call: called once, as the first call begins, on its thread; may close.
        """
        self._at_first_call = at_first_call
        # A signal handler may call a model while its own thread begins a call.
        self._lock = threading.RLock()
        self._schedule: Schedule | None = schedule
        self._window: _CallWindow | None = None
        self._number = 0
        self._is_ready = False
        forget_scopes()

    def close(self, timeout_s: float) -> None:
        """End the window under way, with what it has, and begin no other. Idempotent.

        Args:
            timeout_s: how long to wait for a call that begins on another thread.
        """
        if not self._lock.acquire(timeout=timeout_s):
            return
        try:
            self._schedule = None
            with failures.guard("the last recorded calls were not handed on"):
                self._finish()
        finally:
            self._lock.release()

    def check(self) -> None:
        """End the window if it is done or has lasted too long. Called now and then."""
        with self._lock, failures.guard("recorded calls were not handed on"):
            self._finish_if_done()

    def call_begins(self) -> Call | None:
        """Begin a call in the current context; None when it is not recorded."""
        try:
            if self._at_first_call is not None:
                at_first_call, self._at_first_call = self._at_first_call, None
                at_first_call()
            if not self.is_due:
                return None
            context = self._placer.current()
            return None if context is None else self.begin(context, lambda: self._placer.admit(context))
        except Exception as error:
            failures.report(_NOT_RECORDED, error)
        return None

    def begin(self, current: CallContext, admit: Callable[[], CallContext | None]) -> Call | None:
        """Begin a call; None when it is not recorded.

        Args:
            current: the context: a further call of a span that the window knows is part of it.
            admit: gives the context to record another under. Asked only when the schedule wants it.
        """
        with self._lock:
            try:
                self._finish_if_done()
                is_known = self._window is not None and current.span in self._window.known
                context = current if is_known else self._admitted(admit)
                if context is not None and self._window is not None:
                    self._window.open_calls += 1
                    return Call(self._window, context)
            except Exception as error:
                failures.report(_NOT_RECORDED, error)
        return None

    def call_began(self, call: Call) -> None:
        """Note the context of the event that was just begun for the call."""
        note_context(call.window.capture, call.context)

    def call_ends(self, call: Call) -> None:
        """End a call."""
        with self._lock, failures.guard("recorded calls were not handed on"):
            call.window.open_calls -= 1
            self._finish_if_done()

    def _admitted(self, admit: Callable[[], CallContext | None]) -> CallContext | None:
        if self._schedule is None or (self._window is not None and self._window.is_full):
            return None
        number, self._number = self._number, self._number + 1
        action = self._schedule.action(number)
        if not action.records:
            self._make_ready_once()
            return None
        context = admit()
        if context is None:
            return None
        if self._window is None:
            self._window = self._open(number)
        self._window.known[context.span] = context
        self._window.is_full = action is ProfilerAction.RECORD_AND_SAVE
        return context

    def _make_ready_once(self) -> None:
        """On a thread of its own: a request must not wait for it."""
        if not self._is_ready:
            self._is_ready = True
            threading.Thread(target=self._make_ready_safely, name=_READY_THREAD, daemon=True).start()

    def _make_ready_safely(self) -> None:
        with failures.guard("calls will not be recorded"):
            self._make_ready()

    def _open(self, number: int) -> _CallWindow:
        capture = start_capture(self._open_capture, self._recording_path, number)
        observe_scopes(self._scope_began)
        return _CallWindow(capture, self._clock_s() + MAX_WINDOW_S)

    def _scope_began(self) -> None:
        """A scope of the program began. Within a call it is part of that."""
        window = self._window
        if window is None or is_in_module_call():
            return
        with failures.guard("the request of a span was not noted"):
            context = self._placer.current()
            if context is not None and context.span in window.known:
                # What holds further scopes is never the span itself.
                window.capture.add_context(context.span, context.trace_flags, is_root=False, links=b"")

    def _finish_if_done(self) -> None:
        window = self._window
        if window is not None and (window.is_done or self._clock_s() >= window.ends_at_s):
            self._finish()

    def _finish(self) -> None:
        window, self._window = self._window, None
        if window is None:
            return
        forget_scopes()
        window.capture.halt()
        self._recorded_before += window.capture.recorded
        self._deliver(Window(window.capture))


_NOT_RECORDED = "a call was not recorded"
_READY_THREAD = f"{OWN_THREAD_PREFIX}ready"


def note_context(capture: StepCapture, context: CallContext) -> None:
    """Keep the context of the event that the calling thread has just begun. Raises nothing."""
    with failures.guard("the request of a call was not noted"):
        capture.add_context(context.span, context.trace_flags, is_root=context.is_root, links=context.links)
