"""The OpenTelemetry context around a call of a model: which span it belongs under, and whether it is sampled.

Read where a call begins, on its own thread and in its own task: hooks of attaching and detaching, and span
processors, see the context of whichever task was last.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import create_key, get_value
from opentelemetry.trace import SpanContext, TraceFlags

from otel_torchprof.telemetry.context import CurrentSpan, StepPlacer, current_span

if TYPE_CHECKING:
    from opentelemetry.trace import Span

CALL_SPAN_NAME = "torch.call"
BATCH_KEY = create_key("otel-torchprof-batch")


@dataclass(frozen=True, slots=True)
class CallPlacement:
    """What a call belongs under. `span` is trace id and span id, 24 bytes, or empty outside any span.

    `is_root`: the call is that span itself, with `links` (24 bytes each) to what it works for.
    """

    span: bytes = b""
    trace_flags: int = 0
    is_root: bool = False
    links: bytes = b""
    open_span: Span | None = None

    def is_over(self) -> bool:
        """Whether the span has ended, or is one whose end cannot be seen."""
        return self.open_span is None or not self.open_span.is_recording()


@dataclass(frozen=True, slots=True)
class BatchMark:
    """What the context holds while a batch runs. Calls in it belong under `placement`; None: not recorded."""

    placement: CallPlacement | None


class CallContexts:
    """Reads contexts and decides about calls. Raises nothing.

    `steps` knows how old spans are, and the sampler.
    """

    def __init__(self, steps: StepPlacer) -> None:
        self._steps = steps

    def current(self) -> CallPlacement | None:
        """The context as it is; None where nothing is to be recorded."""
        mark = get_value(BATCH_KEY)
        if isinstance(mark, BatchMark):
            return mark.placement
        span = trace.get_current_span()
        context = span.get_span_context()
        if not context.is_valid:
            return CallPlacement()
        if not context.trace_flags & TraceFlags.SAMPLED:
            return None
        return CallPlacement(context_bytes(context), int(context.trace_flags), open_span=span)

    def admit(self, placement: CallPlacement) -> CallPlacement | None:
        """What a call in that context belongs under: its span, or a root linked to one that is too old."""
        span = current_span() if placement.span else None
        if span is not None and self._steps.is_young(span):
            return placement
        return self.new_root(CALL_SPAN_NAME, [] if span is None else [_context_of(span)])

    def new_root(self, name: str, linked: Sequence[SpanContext]) -> CallPlacement | None:
        """A call as the root of a trace, linked to those spans; None when the sampler does not want it."""
        # Not from `random`, which the program may have seeded: two processes would have the same ids.
        trace_id, span_id = secrets.randbits(128) | 1, secrets.randbits(64) | 1
        if not self._steps.samples_root(trace_id, name, linked):
            return None
        root = SpanContext(trace_id, span_id, False, TraceFlags(TraceFlags.SAMPLED))
        links = b"".join(map(context_bytes, linked))
        return CallPlacement(context_bytes(root), TraceFlags.SAMPLED, is_root=True, links=links)


def context_bytes(context: SpanContext) -> bytes:
    """Trace id and span id, 24 bytes, as the recorder takes them."""
    return context.trace_id.to_bytes(16, "big") + context.span_id.to_bytes(8, "big")


def _context_of(span: CurrentSpan) -> SpanContext:
    return SpanContext(span.trace_id, span.span_id, span.is_remote, TraceFlags(span.trace_flags))
