"""Span data as the SDK's spans: nothing lost on the way to an encoder."""

from __future__ import annotations

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.resources import Resource

from otel_torchprof.spans.span_data import SpanData, SpanEvent, SpanLink
from otel_torchprof.telemetry.readable_spans import to_readable_span
from otel_torchprof.version import __version__

TRACE_ID = 0x0102030405060708090A0B0C0D0E0F10


def encode(span: SpanData) -> Span:
    readable = to_readable_span(span, Resource({"service.name": "s"}))
    scope_spans = encode_spans([readable]).resource_spans[0].scope_spans[0]
    assert (scope_spans.scope.name, scope_spans.scope.version) == ("otel_torchprof", __version__)
    encoded: Span = scope_spans.spans[0]
    return encoded


def test_all_of_a_span_arrives() -> None:
    span = encode(
        SpanData(
            name="aten::mm",
            trace_id=TRACE_ID,
            span_id=0xA1,
            parent_span_id=0xB2,
            start_ns=1_700_000_000_000_000_001,
            end_ns=1_700_000_000_000_000_009,
            attributes={"thread.id": 12, "torch.input.shapes": ("[2, 3]", "[]"), "torch.async": False},
            links=(SpanLink(TRACE_ID + 1, 0xC3, {"torch.link.type": "forward"}),),
            events=(SpanEvent("oom", 1_700_000_000_000_000_005, {"bytes": 8}),),
            error="CUDA out of memory",
        )
    )
    assert span.name == "aten::mm"
    assert span.trace_id == TRACE_ID.to_bytes(16, "big")
    assert span.span_id == (0xA1).to_bytes(8, "big")
    assert span.parent_span_id == (0xB2).to_bytes(8, "big")
    assert span.kind == Span.SPAN_KIND_INTERNAL
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (
        1_700_000_000_000_000_001,
        1_700_000_000_000_000_009,
    )
    attributes = {item.key: item.value for item in span.attributes}
    assert attributes["thread.id"].int_value == 12
    assert [item.string_value for item in attributes["torch.input.shapes"].array_value.values] == [
        "[2, 3]",
        "[]",
    ]
    assert attributes["torch.async"].WhichOneof("value") == "bool_value"
    (link,) = span.links
    assert (link.trace_id, link.span_id) == ((TRACE_ID + 1).to_bytes(16, "big"), (0xC3).to_bytes(8, "big"))
    assert link.attributes[0].value.string_value == "forward"
    (event,) = span.events
    assert (event.name, event.time_unix_nano) == ("oom", 1_700_000_000_000_000_005)
    assert span.status == Status(code=Status.STATUS_CODE_ERROR, message="CUDA out of memory")


def test_a_root_has_no_parent_and_no_status() -> None:
    span = encode(SpanData("torch.step", TRACE_ID, 1, 0, 5, 6))
    assert span.parent_span_id == b""
    assert span.status.code == Status.STATUS_CODE_UNSET
