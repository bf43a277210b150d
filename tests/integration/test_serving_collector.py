"""Requests that a collector receives: OTLP as it is sent, without the spans that somebody else sends."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from opentelemetry.sdk.trace import TracerProvider

from otel_torchprof import batch
from otel_torchprof.instrumentor import TorchprofInstrumentor
from tests.support.otlp_sink import OtlpHttpSink
from tests.support.rotel import RotelCollector
from tests.support.served_models import Repeated, ops_of_a_call


def test_requests_and_their_batch_arrive(
    instrumentor: TorchprofInstrumentor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OtlpHttpSink() as sink, RotelCollector(tmp_path, forward_to=sink.endpoint) as collector:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.http_endpoint)
        provider = TracerProvider()
        instrumentor.instrument(mode="trace", step="module", schedule="active=100", tracer_provider=provider)
        tracer = provider.get_tracer("server")
        model = Repeated().eval()
        with torch.inference_mode():
            with tracer.start_as_current_span("alone") as alone:
                model(3)
            together = [tracer.start_span("together") for _ in range(2)]
            with batch(together):
                model(5)
        for request in together:
            request.end()
        instrumentor.uninstrument()
        # The calls, and the root of the batch.
        sink.wait_for_spans(ops_of_a_call(3).total() + ops_of_a_call(5).total() + 3)
        collector.stop()
        spans = sink.spans

    def context_of(request: object) -> tuple[bytes, bytes]:
        context = request.get_span_context()  # type: ignore[attr-defined]
        return context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big")

    (root,) = (span for span in spans if not span.parent_span_id)
    assert root.name == "torch.batch"
    assert [(link.trace_id, link.span_id) for link in root.links] == [context_of(one) for one in together]
    trace_id, span_id = context_of(alone)
    for own_trace, times in ((trace_id, 3), (root.trace_id, 5)):
        names = Counter(span.name for span in spans if span.trace_id == own_trace)
        assert {name: names[name] for name in ops_of_a_call(times)} == ops_of_a_call(times)
    assert {span.trace_id for span in spans} == {trace_id, root.trace_id}
    (call,) = (span for span in spans if span.name == "Repeated" and span.trace_id == trace_id)
    assert call.parent_span_id == span_id
