"""Spans to OTLP bytes: our native encoder beside the SDK's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, SpanContext, TraceFlags

from benchmarks.pairing import elapsed_ns, paired
from benchmarks.rows import Row, Target
from otel_torchprof.recording import EventKind, RecordingBuilder, StepFlags
from otel_torchprof.spans import SpanLimits, SpanPlan, plan_spans, roots_from_steps

OP_NAMES = ("aten::linear", "aten::addmm", "aten::relu", "aten::add_", "aten::mul", "aten::sum")


class OneProcess:
    run_id, restart, rank = "benchmark", 0, 0


def make_plan(forward_ops: int) -> SpanPlan:
    """A step of `forward_ops` forward ops, and for each a backward op on another thread, linked to it."""
    builder = RecordingBuilder()
    builder.add_track("python", thread_id=4001, torch_thread_id=1)
    builder.add_track("pt_autograd_0", thread_id=4002, torch_thread_id=2)
    forward_names = [builder.add_name(name, "Tensor") for name in OP_NAMES]
    backward_names = [
        builder.add_name(f"{name.removeprefix('aten::').title()}Backward0") for name in OP_NAMES
    ]
    index = np.arange(forward_ops)
    start_ns = 1_700_000_000_000_000_000 + 10_000 * index
    backward_ns = start_ns + 10_000 * forward_ops
    builder.add_events(
        np.take(forward_names, index % len(OP_NAMES)), start_ns, start_ns + 8_000, index * 0, sequence=index
    )
    builder.add_events(
        np.take(backward_names, index % len(OP_NAMES)),
        backward_ns,
        backward_ns + 8_000,
        index * 0 + 1,
        kind=np.full(forward_ops, EventKind.OP),
        scope=index * 0 + 1,
        sequence=index,
        forward_thread=index * 0 + 1,
    )
    builder.add_step(int(start_ns[0]), int(backward_ns[-1]) + 10_000, 0, flags=StepFlags.HAS_NUMBER)
    recording = builder.finish()
    return plan_spans(recording, roots_from_steps(recording, OneProcess()), SpanLimits(0, 0))


def sdk_spans(plan: SpanPlan, resource: Resource, count: int) -> Iterator[ReadableSpan]:
    """The last `count` spans of the plan, which have links, as the SDK has them."""
    flags = TraceFlags(TraceFlags.SAMPLED)
    for span in list(plan.spans())[-count:]:
        yield ReadableSpan(
            span.name,
            SpanContext(span.trace_id, span.span_id, False, flags),
            SpanContext(span.trace_id, span.parent_span_id, False, flags),
            resource,
            span.attributes,
            links=[
                Link(SpanContext(link.trace_id, link.span_id, False), link.attributes) for link in span.links
            ],
            start_time=span.start_ns,
            end_time=span.end_ns,
        )


def run(quick: bool = False) -> list[Row]:
    """Spans a second on one core: seven attributes each, a link on every other."""
    forward_ops, sdk_count = (10_000, 500) if quick else (100_000, 5_000)
    plan = make_plan(forward_ops)
    resource = Resource({"service.name": "benchmark"})
    theirs = list(sdk_spans(plan, resource, sdk_count))
    sizes = [(len(request.payload), request.spans) for request in plan.encode(b"")]

    figures = paired(
        lambda: len(plan) / elapsed_ns(lambda: list(plan.encode(b""))) * 1e9,
        lambda: sdk_count / elapsed_ns(lambda: encode_spans(theirs).SerializeToString()) * 1e9,
        repeats=3 if quick else 7,
    )
    size_bytes = sum(size for size, _ in sizes) / sum(count for _, count in sizes)
    return [
        Row("OTLP encode", figures.a, "spans/s", "SDK", figures.b, Target("at least", 1_500_000, "ours")),
        Row("OTLP size", size_bytes, "B/span"),
    ]
