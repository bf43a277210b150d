"""Where the steps of a profile go in the traces of the program that is profiled."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.step_details import STEP_IN_PARENT, StepDetails

if TYPE_CHECKING:
    from otel_torchprof.telemetry.context import StepPlacer


class StepContexts:
    """Reads the OpenTelemetry context in which each step of a profile begins. Raises nothing.

    A step belongs to the span that is current then, as a request's or a job's, by the rule of `StepPlacer`:
    one step a span, while it is young. Any other is a root of its own with a link to that span; so is one
    under a span that is not sampled, as whoever profiles wants to see what comes of it.
    """

    def __init__(self) -> None:
        self._placer: StepPlacer | None = None

    def place(self, flags: int) -> StepDetails:
        """What to record of a step that begins now on this thread, with these flags and its context."""
        # Who has not imported it has no span; importing it takes longer than a step.
        if "opentelemetry.trace" in sys.modules:
            with failures.guard("a step is recorded without the span around it"):
                return self._in_context(flags)
        return StepDetails(flags=flags)

    def _in_context(self, flags: int) -> StepDetails:
        from otel_torchprof.telemetry.context import StepPlacer, current_span

        span = current_span()
        if span is None:
            return StepDetails(flags=flags)
        if self._placer is None:
            self._placer = StepPlacer()
        if span.is_sampled and self._placer.claim(span):
            flags |= STEP_IN_PARENT
        return StepDetails(flags=flags, context=span.context_bytes, context_trace_flags=span.trace_flags)
