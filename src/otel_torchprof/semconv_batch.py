"""What a request that was answered in a batch is told of it: an event, a span, their attributes."""

from __future__ import annotations

from otel_torchprof.semconv import Attribute

BATCH_EVENT = "torch.batch"
BATCH_SHARE_SPAN = "torch.batch.share"
BATCH_TRACE_ID = "torch.batch.trace_id"
BATCH_SPAN_ID = "torch.batch.span_id"
BATCH_SIZE = "torch.batch.size"
BATCH_DURATION_NS = "torch.batch.duration_ns"
BATCH_CPU_TIME_NS = "torch.batch.cpu_time_ns"
BATCH_SHARE = "torch.batch.share"
BATCH_SHARE_CPU_TIME_NS = "torch.batch.share.cpu_time_ns"
BATCH_DEVICE_TIME_NS = "torch.batch.device_time_ns"
BATCH_SHARE_DEVICE_TIME_NS = "torch.batch.share.device_time_ns"

_ON = "event and span"
_ON_SPANS = "span"

BATCH_ATTRIBUTES = (
    Attribute(BATCH_TRACE_ID, "string", "", _ON, "Trace of the batch, in hexadecimal digits."),
    Attribute(BATCH_SPAN_ID, "string", "", _ON, "Its root."),
    Attribute(BATCH_SIZE, "int", "{request}", _ON, "How many requests it answered."),
    Attribute(BATCH_DURATION_NS, "int", "ns", _ON, "How long it took."),
    Attribute(BATCH_CPU_TIME_NS, "int", "ns", _ON, "CPU time of the thread that it began on."),
    Attribute(BATCH_SHARE, "double", "", _ON, "Part of the batch that the request had; all add up to 1."),
    Attribute(
        BATCH_SHARE_CPU_TIME_NS, "int", "ns", _ON, "Its part of the CPU time; all add up to the whole."
    ),
    Attribute(
        BATCH_DEVICE_TIME_NS,
        "int",
        "ns",
        _ON_SPANS,
        "Time of the kernels, copies and memsets that it launched.",
    ),
    Attribute(
        BATCH_SHARE_DEVICE_TIME_NS, "int", "ns", _ON_SPANS, "Its part of that; all add up to the whole."
    ),
)

BATCH_EVENTS = f"""\
The span of a request that `otel_torchprof.batch` was given, if it is still open at the end of the batch, has
an event `{BATCH_EVENT}` then, where the batch was recorded. If it launched work on a device that was recorded
too, each request's span gets a child `{BATCH_SHARE_SPAN}` as soon as its device time is known, which the
program's own tracer provider sends, linked to the batch:
"""
