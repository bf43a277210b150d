"""Which span a call of a model belongs under."""

from __future__ import annotations

import random

from opentelemetry import trace
from opentelemetry.context import attach, detach, set_value
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from otel_torchprof.telemetry.call_context import (
    BATCH_KEY,
    BatchMark,
    CallContexts,
    CallPlacement,
    context_bytes,
)
from tests.unit.telemetry.test_context import UNIX_NS, Clock, make_placer

SPAN = SpanContext(7, 1, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def contexts(clock: Clock | None = None, sampler: Sampler = ALWAYS_ON) -> CallContexts:
    return CallContexts(make_placer(clock, sampler))


def test_a_call_belongs_under_the_current_span_while_that_is_young() -> None:
    clock = Clock()
    calls = contexts(clock)
    span = TracerProvider().get_tracer("test").start_span("request", start_time=UNIX_NS)
    with trace.use_span(span):
        placement = calls.current()
        assert placement is not None
        assert placement.span == context_bytes(span.get_span_context())
        assert calls.admit(placement) is placement
        assert not placement.is_over()
        clock.advance(60)
        root = calls.admit(placement)
    assert root is not None
    assert root.is_root
    assert root.span[:16] != placement.span[:16]
    assert root.links == placement.span
    span.end()
    assert placement.is_over()


def test_a_span_that_is_not_sampled_wants_nothing() -> None:
    with trace.use_span(NonRecordingSpan(SpanContext(7, 1, False, TraceFlags(0)))):
        assert contexts().current() is None


def test_the_end_of_a_span_of_another_process_is_not_waited_for() -> None:
    with trace.use_span(NonRecordingSpan(SPAN)):
        placement = contexts().current()
    assert placement is not None
    assert placement.is_over()


def test_outside_any_span_the_sampler_decides() -> None:
    placement = contexts().current()
    assert placement == CallPlacement()
    assert contexts(sampler=ALWAYS_OFF).admit(placement) is None
    root = contexts().admit(placement)
    assert root is not None
    assert (root.is_root, root.links, root.is_over()) == (True, b"", True)


def test_ids_are_others_in_each_process_that_seeds_alike() -> None:
    roots = []
    for _ in range(2):
        random.seed(0)
        roots.append(contexts().new_root("torch.call", []))
    assert roots[0] != roots[1]


def test_in_a_batch_the_batch_is_the_context() -> None:
    inner = CallPlacement(context_bytes(SPAN), TraceFlags.SAMPLED)
    for placement in (inner, None):
        token = attach(set_value(BATCH_KEY, BatchMark(placement)))
        try:
            assert contexts().current() is placement
        finally:
            detach(token)
