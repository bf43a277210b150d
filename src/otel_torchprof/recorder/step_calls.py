"""Calls inside recorded steps: in the recording of the step, which has their ops already."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from otel_torchprof.recorder.call_windows import CallContext, note_context
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.window import StepCapture


@dataclass(frozen=True, slots=True, eq=False)
class StepCall:
    """A call that is being recorded with the step around it."""

    capture: StepCapture
    context: CallContext


class StepCalls:
    """What `CallWindows` is to a program that serves, for one that takes steps. None of its methods raises.

    Args:
        capture: the capture of the step under way; None where that is not recorded.
    """

    def __init__(self, capture: Callable[[], StepCapture | None]) -> None:
        self._capture = capture

    def begin(self, current: CallContext, admit: Callable[[], CallContext | None]) -> StepCall | None:
        """Begin a call; None when it is not recorded.

        Args:
            current: the context around it.
            admit: gives the context to record it under. Asked only inside a recorded step.
        """
        capture = self._capture()
        if capture is not None:
            with failures.guard("a call was not recorded"):
                context = admit()
                return None if context is None else StepCall(capture, context)
        return None

    def call_began(self, call: StepCall) -> None:
        """Note the context of the event that was just begun for the call."""
        note_context(call.capture, call.context)

    def call_ends(self, call: StepCall) -> None:
        """End a call: the step goes on."""
