"""Encoded OTLP requests to send in tests."""

from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def make_request(spans: int, *, padding_bytes: int = 0, prefix: str = "op") -> ExportTraceServiceRequest:
    """`spans` spans named `<prefix>0`, `<prefix>1`, ..., each with `padding_bytes` of attribute."""
    request = ExportTraceServiceRequest()
    resource_spans = request.resource_spans.add(schema_url="https://example.test/resource")
    resource_spans.resource.attributes.add(key="service.name").value.string_value = "train.py"
    scope_spans = resource_spans.scope_spans.add(schema_url="https://example.test/scope")
    scope_spans.scope.name = "otel_torchprof"
    for number in range(spans):
        span = scope_spans.spans.add(
            trace_id=b"t" * 16,
            span_id=(number + 1).to_bytes(8, "big"),
            name=f"{prefix}{number}",
            start_time_unix_nano=1_000 + number,
            end_time_unix_nano=2_000 + number,
        )
        if padding_bytes:
            span.attributes.add(key="padding").value.string_value = "x" * padding_bytes
    return request
