"""Plain span data as the SDK's `ReadableSpan`, for exporters that take nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from otel_torchprof.version import __version__

if TYPE_CHECKING:
    from otel_torchprof.spans.span_data import SpanData

INSTRUMENTATION_SCOPE = InstrumentationScope("otel_torchprof", __version__)
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)


def to_readable_span(span: SpanData, resource: Resource) -> ReadableSpan:
    """The finished span `span` as the SDK would have made it."""
    return ReadableSpan(
        name=span.name,
        context=_context(span.trace_id, span.span_id),
        parent=_context(span.trace_id, span.parent_span_id) if span.parent_span_id else None,
        resource=resource,
        attributes=span.attributes,
        events=tuple(Event(event.name, event.attributes, event.time_ns) for event in span.events),
        links=tuple(Link(_context(link.trace_id, link.span_id), link.attributes) for link in span.links),
        kind=SpanKind.INTERNAL,
        status=_UNSET if span.error is None else Status(StatusCode.ERROR, span.error),
        start_time=span.start_ns,
        end_time=span.end_ns,
        instrumentation_scope=INSTRUMENTATION_SCOPE,
    )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=_SAMPLED)
