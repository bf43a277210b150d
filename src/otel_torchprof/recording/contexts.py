"""Which spans of other traces events belong under: the requests that a serving program worked for."""

from __future__ import annotations

from dataclasses import dataclass

from otel_torchprof.recording.steps import SpanContext


@dataclass(frozen=True, slots=True)
class EventContext:
    """The span that an event belongs under, with all that the event encloses."""

    row: int
    context: SpanContext
    trace_flags: int
    is_root: bool  # the event itself is that span, the root of its trace
    links: tuple[SpanContext, ...]  # spans that it worked for
