"""`otlp_trace_handler`: each cycle of a profile arrives as spans."""

from __future__ import annotations

import sys

import pytest
import torch
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Span as LiveSpan

from otel_torchprof.profiler import otlp_trace_handler, profile, schedule
from otel_torchprof.profiling.step_contexts import StepContexts
from otel_torchprof.recorder.step_details import StepDetails
from tests.support.otlp_sink import OtlpHttpSink


def test_each_cycle_arrives_before_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpHttpSink() as sink:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        arrived: list[int] = []
        prof = profile(
            schedule=schedule(wait=1, warmup=0, active=1, repeat=2), on_trace_ready=otlp_trace_handler()
        )
        with prof:
            for _ in range(4):
                torch.ones(2).cos()
                prof.step()
                arrived.append(len([span for span in sink.spans if span.name == "aten::cos"]))
        assert arrived == [0, 1, 1, 2]
        numbers = [
            attribute.value.int_value
            for span in sink.spans
            if span.name == "torch.step"
            for attribute in span.attributes
            if attribute.key == "torch.step.number"
        ]
        assert numbers == [1, 3]


def test_a_server_out_of_reach_does_not_stop_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with profile(on_trace_ready=otlp_trace_handler(timeout_s=5)) as prof:
        torch.ones(2).cos()
    assert len(prof.events())
    assert any(record.levelname == "WARNING" for record in caplog.records)


def test_a_step_goes_with_the_span_that_it_begins_in(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = TracerProvider().get_tracer("test")
    unsampled = TracerProvider(sampler=ALWAYS_OFF).get_tracer("test")
    with OtlpHttpSink() as sink:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        each_step = schedule(wait=0, warmup=0, active=1)
        with profile(schedule=each_step, on_trace_ready=otlp_trace_handler()) as prof:
            torch.ones(2).cos()
            with sampled.start_as_current_span("request") as request:
                for _ in range(2):
                    prof.step()
                    torch.ones(2).cos()
            with unsampled.start_as_current_span("quiet") as quiet:
                prof.step()
                torch.ones(2).cos()
            prof.step()
        steps = {_number(span): span for span in sink.spans if span.name == "torch.step"}
    assert sorted(steps) == [0, 1, 2, 3]
    alone, within, second, under_unsampled = (steps[number] for number in range(4))
    assert (_context_links(alone), alone.parent_span_id) == ([], b"")
    assert (within.trace_id, within.parent_span_id) == _ids(request)
    assert _context_links(within) == []
    # A span holds one step; and where it is not sampled, what was asked for arrives all the same.
    for step, span in ((second, request), (under_unsampled, quiet)):
        assert (_context_links(step), step.parent_span_id) == ([_ids(span)], b"")
        assert step.trace_id != _ids(span)[0]


def test_what_has_not_imported_opentelemetry_has_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    with TracerProvider().get_tracer("test").start_as_current_span("request"):
        assert StepContexts().place(4).context != b""
        monkeypatch.delitem(sys.modules, "opentelemetry.trace")
        assert StepContexts().place(4) == StepDetails(flags=4)


def _number(step: Span) -> int:
    (number,) = (one.value for one in step.attributes if one.key == "torch.step.number")
    return int(number.int_value)


def _ids(span: LiveSpan) -> tuple[bytes, bytes]:
    context = span.get_span_context()
    return context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big")


def _context_links(step: Span) -> list[tuple[bytes, bytes]]:
    """Links to spans of the program; not those to the step before."""
    return [
        (link.trace_id, link.span_id)
        for link in step.links
        if any(
            one.key == "torch.link.type" and one.value.string_value == "context" for one in link.attributes
        )
    ]
