"""Recordings as spans: names, parents, links, ids and budgets. Knows no OpenTelemetry SDK."""

from otel_torchprof.spans.plan import (
    DEFAULT_LIMITS,
    EncodedRequest,
    SpanLimits,
    SpanPlan,
    TraceStats,
    plan_spans,
)
from otel_torchprof.spans.roots import (
    BATCH_SPAN_NAME,
    CAPTURE_SPAN_NAME,
    STEP_SPAN_NAME,
    Root,
    RootEvent,
    RootLink,
    Run,
    capture_root,
    roots_from_steps,
    step_ids,
)
from otel_torchprof.spans.span_data import Attributes, AttributeValue, SpanData, SpanEvent, SpanLink

__all__ = [
    "BATCH_SPAN_NAME",
    "CAPTURE_SPAN_NAME",
    "DEFAULT_LIMITS",
    "STEP_SPAN_NAME",
    "AttributeValue",
    "Attributes",
    "EncodedRequest",
    "Root",
    "RootEvent",
    "RootLink",
    "Run",
    "SpanData",
    "SpanEvent",
    "SpanLimits",
    "SpanLink",
    "SpanPlan",
    "TraceStats",
    "capture_root",
    "plan_spans",
    "roots_from_steps",
    "step_ids",
]
