"""Windows: runs of steps that the schedule has recorded, each in a capture of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.schedule import ProfilerAction, Schedule
from otel_torchprof.recorder.step_details import (
    NO_DETAILS,
    STEP_HAS_NUMBER,
    STEP_IN_PARENT,
    STEP_PARTIAL,
    StepDetails,
)
from otel_torchprof.recorder.window_capture import start_capture

if TYPE_CHECKING:
    from otel_torchprof.recording import Recording


# What recording adds to an op, torch's own part included; `make bench` measures it.
EVENT_COST_NS = 180
# What failed when a step could not be recorded, as `failures` counts it.
STEP_NOT_RECORDED = "a step was not recorded"


class StepContext(NamedTuple):
    """The OpenTelemetry context in which a step begins, in the recorder's plain terms.

    `span` is trace id and span id, 24 bytes, or empty; `in_parent` tells whether the step belongs to that
    span or is a root linked to it; `sampled` whether its spans are wanted.
    """

    span: bytes = b""
    trace_flags: int = 0
    in_parent: bool = False
    sampled: bool = True


class StepCapture(Protocol):
    """What a window needs of a `Capture`."""

    @property
    def recorded(self) -> int: ...

    def start(self) -> None: ...

    def begin_step(self, number: int = -1, details: StepDetails = NO_DETAILS) -> None: ...

    def end_step(self) -> None: ...

    def add_context(self, context: bytes, trace_flags: int, *, is_root: bool, links: bytes) -> None: ...

    def halt(self) -> None: ...

    def stop(self) -> Recording: ...


@dataclass(slots=True)
class Window:
    """A recorded run of steps. Its recording is made by `capture.stop()`, which takes its time.

    `partial` tells that recording began or ended inside a step.
    """

    capture: StepCapture
    steps: list[int] = field(default_factory=list)
    unsampled_steps: set[int] = field(default_factory=set)
    partial: bool = False


class WindowController:
    """Starts and stops captures at step boundaries, as the schedule says. None of its methods raises.

    Args:
        schedule: asked at each boundary.
        open_capture: makes a capture that records into a file, or with None into memory.
        place_step: reads the context for the step of that number, on the thread that begins it.
        deliver: takes each finished window; must not block.
        make_ready: does what the first capture needs and takes long.
        recording_path: path of the file for the window that begins with a step; None saves no files.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        open_capture: Callable[[Path | None], StepCapture],
        place_step: Callable[[int], StepContext],
        deliver: Callable[[Window], None],
        make_ready: Callable[[], object],
        recording_path: Callable[[int], Path] | None = None,
    ) -> None:
        self._open_capture = open_capture
        self._place_step = place_step
        self._deliver = deliver
        self._make_ready = make_ready
        self._recording_path = recording_path
        self._recorded_before = 0
        self.start_over(schedule)

    @property
    def recorded(self) -> int:
        """Events recorded so far, in all windows and the one under way."""
        window = self._window
        return self._recorded_before + (0 if window is None else window.capture.recorded)

    @property
    def capture(self) -> StepCapture | None:
        """What records the step under way; None where that is not recorded."""
        window = self._window
        return None if window is None else window.capture

    def start_over(self, schedule: Schedule) -> None:
        """Forget the window under way, without stopping it: for a forked child, where it is the parent's."""
        # A signal handler that steps or exits may interrupt the thread that handles a boundary.
        self._lock = threading.RLock()
        self._schedule = schedule
        self._window: Window | None = None
        self._action = ProfilerAction.NONE
        self._first = 0
        self._number = -1
        self._ready = False

    def begin(self, number: int = 0) -> None:
        """Begin step `number`, of which a part is over already. The schedule counts from it."""
        self._first = number
        self._enter_step(number, b"", partial=True)

    def on_step(self, number: int, links: bytes) -> None:
        """Handle a boundary: the step before it ends and step `number` begins."""
        self._enter_step(number, links, partial=False)

    def close(self, timeout_s: float) -> None:
        """End the window under way, inside its step, and begin no other. Idempotent.

        Args:
            timeout_s: how long to wait for a boundary that is being handled on another thread.
        """
        if not self._lock.acquire(timeout=timeout_s):
            return
        try:
            self._schedule = _Closed()
            with failures.guard("the last recorded steps were not handed on"):
                self._finish(partial=True)
        finally:
            self._lock.release()

    def _enter_step(self, number: int, links: bytes, *, partial: bool) -> None:
        with self._lock, failures.guard(STEP_NOT_RECORDED):
            if number <= self._number:
                return  # overtaken by a boundary on another thread
            self._number = number
            was_last = self._action is ProfilerAction.RECORD_AND_SAVE
            self._action = self._schedule.action(number - self._first)
            if was_last or not self._action.records:
                self._finish(partial=False)
            if self._action.records:
                self._record_step(number, links, partial=partial)
            elif not self._ready and (number > self._first or self._action is ProfilerAction.WARMUP):
                self._ready = True
                self._make_ready()

    def _record_step(self, number: int, links: bytes, *, partial: bool) -> None:
        context = self._place_step(number)
        if self._window is None:
            self._window = Window(start_capture(self._open_capture, self._recording_path, number))
        window = self._window
        window.steps.append(number)
        window.partial |= partial
        if not context.sampled:
            window.unsampled_steps.add(number)
        flags = STEP_HAS_NUMBER
        flags |= STEP_IN_PARENT if context.in_parent else 0
        flags |= STEP_PARTIAL if partial else 0
        details = StepDetails(
            flags=flags, context=context.span, context_trace_flags=context.trace_flags, links=links
        )
        window.capture.begin_step(number, details)

    def _finish(self, *, partial: bool) -> None:
        window, self._window = self._window, None
        if window is None:
            return
        if partial:
            window.partial = True  # the open step is closed as unfinished
        else:
            window.capture.end_step()
        window.capture.halt()
        self._recorded_before += window.capture.recorded
        self._deliver(window)


class _Closed:
    """The schedule of a controller that is closed."""

    is_due = False

    def action(self, step: int) -> ProfilerAction:
        return ProfilerAction.NONE
