"""Cutting an encoded `ExportTraceServiceRequest` in two at a span boundary."""

from __future__ import annotations

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def split_request(payload: bytes) -> tuple[tuple[bytes, int], tuple[bytes, int]]:
    """Two requests, each with its number of spans, which hold the spans of `payload` once and in order.

    Resources, scopes and schema URLs are repeated in both where spans of them are. Raises ValueError where
    there are fewer than two spans, and protobuf's DecodeError where `payload` is not a request.
    """
    request = ExportTraceServiceRequest.FromString(payload)
    total = count_spans(request)
    if total < 2:
        raise ValueError(f"a request of {total} spans cannot be split")
    half = total // 2
    head = _take(request, 0, half)
    tail = _take(request, half, total)
    return (head.SerializeToString(), half), (tail.SerializeToString(), total - half)


def count_spans(request: ExportTraceServiceRequest) -> int:
    """How many spans `request` holds."""
    return sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)


def _take(request: ExportTraceServiceRequest, begin: int, end: int) -> ExportTraceServiceRequest:
    taken = ExportTraceServiceRequest()
    position = 0
    for resource_spans in request.resource_spans:
        target_resource = None
        for scope_spans in resource_spans.scope_spans:
            first = max(begin - position, 0)
            last = min(end - position, len(scope_spans.spans))
            position += len(scope_spans.spans)
            if first >= last:
                continue
            if target_resource is None:
                target_resource = taken.resource_spans.add(schema_url=resource_spans.schema_url)
                if resource_spans.HasField("resource"):
                    target_resource.resource.CopyFrom(resource_spans.resource)
            target_scope = target_resource.scope_spans.add(schema_url=scope_spans.schema_url)
            if scope_spans.HasField("scope"):
                target_scope.scope.CopyFrom(scope_spans.scope)
            target_scope.spans.extend(scope_spans.spans[first:last])
    return taken
