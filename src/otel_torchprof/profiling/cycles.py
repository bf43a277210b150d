"""The state machine between a schedule and what records: which step begins, ends and delivers a cycle."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any, Protocol

from otel_torchprof.profiling.actions import ProfilerAction, action_at, warn_incorrect


class CycleWork(Protocol):
    """What is done at the boundaries of cycles and steps."""

    def prepare(self) -> None:
        """Make ready for a cycle: when its warm-up begins, or just before it is recorded."""

    def start(self) -> None:
        """Begin to record a cycle."""

    def begin_step(self, number: int) -> None:
        """A recorded step begins; the one before it in the same cycle ends."""

    def stop(self, *, is_partial: bool) -> None:
        """Stop recording a cycle, whose last step ends here; `is_partial` where its schedule goes on."""

    def abandon(self) -> None:
        """Forget a cycle that could not be stopped."""

    def deliver(self) -> None:
        """Hand the stopped cycle to the program, which may raise."""


class CycleMachine:
    """Runs the cycles of a schedule. Each is delivered once: when its last step ends, or cut off by `end`.

    Whatever the program's own code raises when a cycle is delivered, the next cycle has begun by then.
    """

    def __init__(self, schedule: Callable[[int], Any], work: CycleWork) -> None:
        self._schedule = schedule
        self._work = work
        self.step_number = 0
        self.action = action_at(schedule, 0)
        self.running = False
        self._is_prepared = False
        self._is_recording = False

    def begin(self) -> None:
        """Begin with the current step."""
        self._enter()
        self.running = True

    def step(self) -> None:
        """End the current step and begin the next. While it does not run, that is all: steps are counted.

        Raises:
            ValueError: the schedule returned no action for it; nothing has changed then.
        """
        number = self.step_number + 1
        action = action_at(self._schedule, number)
        before, self.action, self.step_number = self.action, action, number
        if not self.running:
            return
        is_cut_off = before is ProfilerAction.RECORD and not action.records
        if is_cut_off or (before is ProfilerAction.WARMUP and action is ProfilerAction.NONE):
            warn_incorrect(before, action)
        is_complete = before is ProfilerAction.RECORD_AND_SAVE
        try:
            if is_complete or is_cut_off:
                self._stop(is_partial=is_cut_off)
            if is_complete:
                self._work.deliver()
        finally:
            if self._is_recording and (is_complete or is_cut_off):
                self._is_recording = self._is_prepared = False
                self._work.abandon()
            self._enter()

    def end(self) -> None:
        """End within the current step. What was recorded of a cycle is delivered.

        When it cannot be stopped, nothing has changed: it can be tried again.
        """
        has_cycle = self._is_recording
        if has_cycle:
            self._stop(is_partial=True)
        self.running = False
        self._is_prepared = False
        if has_cycle:
            self._work.deliver()

    def _enter(self) -> None:
        if self.action is ProfilerAction.NONE:
            self._is_prepared = False
            return
        if not self._is_prepared and not self._is_recording:
            self._work.prepare()
            self._is_prepared = True
        if self.action.records:
            if not self._is_recording:
                self._work.start()
                self._is_recording = True
            self._work.begin_step(self.step_number)

    def _stop(self, *, is_partial: bool) -> None:
        self._work.stop(is_partial=is_partial)
        self._is_recording = False
        self._is_prepared = False


def transitions() -> dict[tuple[ProfilerAction, ProfilerAction | None], list[str]]:
    """What a machine does between two steps, by their actions, None = the end: methods of `CycleWork`.

    That steps begin is left out.
    """
    actions = [action for action in ProfilerAction if action is not ProfilerAction.DEVICE_STOPPED]
    found: dict[tuple[ProfilerAction, ProfilerAction | None], list[str]] = {}
    for before, after in itertools.product(actions, [*actions, None]):
        work = _Noted()
        machine = CycleMachine([before, after].__getitem__, work)
        machine.begin()
        work.done.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of schedules that leave out the end of a cycle
            machine.end() if after is None else machine.step()
        found[before, after] = work.done
    return found


class _Noted(CycleWork):
    """Does nothing but note what was to be done."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def prepare(self) -> None:
        self.done.append("prepare")

    def start(self) -> None:
        self.done.append("start")

    def begin_step(self, number: int) -> None:
        pass

    def stop(self, *, is_partial: bool) -> None:
        self.done.append("stop")

    def abandon(self) -> None:
        self.done.append("abandon")

    def deliver(self) -> None:
        self.done.append("deliver")
