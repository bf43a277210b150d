"""What holds over gRPC and over HTTP alike, against real servers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_torchprof.telemetry.otlp_sender import OtlpSender
from otel_torchprof.telemetry.send_result import SendResult
from tests.support.otlp_sink import GrpcAnswer, HttpAnswer, OtlpGrpcSink, OtlpHttpSink
from tests.support.requests import make_request
from tests.support.senders import ENDPOINT, PAYLOAD, SPANS, TIMEOUT, GrpcSender, HttpSender


@dataclass(frozen=True)
class Transport:
    """A server, what is sent to it, and how it answers."""

    sink: Callable[..., Any]
    sender: Callable[[dict[str, str]], OtlpSender[Any]]
    answer: Callable[[ExportTraceServiceResponse], object]
    no_answer: object
    refusal: object
    destination: str  # as messages name it


TRANSPORTS = [
    Transport(
        OtlpGrpcSink,
        GrpcSender,
        lambda response: GrpcAnswer(response=response),
        GrpcAnswer(hangs=True),
        GrpcAnswer(grpc.StatusCode.INVALID_ARGUMENT),
        "127.0.0.1:{port}",
    ),
    Transport(
        OtlpHttpSink,
        HttpSender,
        lambda response: HttpAnswer(body=response.SerializeToString()),
        HttpAnswer(hangs=True),
        HttpAnswer(400),
        "http://127.0.0.1:{port}/v1/traces",
    ),
]
both = pytest.mark.parametrize("transport", TRANSPORTS, ids=["grpc", "http"])


@both
def test_a_refused_request_is_not_the_end_of_the_sender(transport: Transport) -> None:
    with transport.sink(transport.refusal) as sink:
        sender = transport.sender({ENDPOINT: sink.endpoint})
        assert sender.send(PAYLOAD, SPANS) == SendResult.dropped("refused", SPANS)
        assert sender.send(PAYLOAD, SPANS) == SendResult(delivered=SPANS)


@both
def test_partial_success_is_counted_and_logged_once(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = 2
    response.partial_success.error_message = "trace too\nlarge"
    with transport.sink(*[transport.answer(response)] * 3) as sink:
        sender = transport.sender({ENDPOINT: sink.endpoint})
        for _ in range(3):
            assert sender.send(PAYLOAD, SPANS) == SendResult(delivered=SPANS - 2, rejected=2)
        destination = transport.destination.format(port=sink.port)
    assert [record.getMessage() for record in caplog.records] == [
        f"otel-torchprof: {destination} rejected 2 span(s): trace too large"
    ]


@both
def test_requests_larger_than_the_server_takes_are_halved_until_they_fit(transport: Transport) -> None:
    request = make_request(64, padding_bytes=1000)
    with transport.sink(max_request_bytes=10_000) as sink:
        sender = transport.sender({ENDPOINT: sink.endpoint})
        assert sender.send(request.SerializeToString(), 64) == SendResult(delivered=64)
        assert [span.name for span in sink.spans] == [f"op{number}" for number in range(64)]
        assert (
            sink.received[0].request.resource_spans[0].resource
            == sink.received[-1].request.resource_spans[0].resource
        )


@both
def test_a_single_span_that_is_too_large_is_dropped_alone(
    transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    request = make_request(4)
    big = request.resource_spans[0].scope_spans[0].spans[2]
    big.attributes.add(key="shapes").value.string_value = "x" * 5000
    with transport.sink(max_request_bytes=3000) as sink:
        result = transport.sender({ENDPOINT: sink.endpoint}).send(request.SerializeToString(), 4)
        assert result == SendResult(delivered=3, dropped_by_reason={"too_large": 1})
        assert [span.name for span in sink.spans] == ["op0", "op1", "op3"]
    (record,) = caplog.records
    assert "(too_large): 1 span(s) in " in record.getMessage()


@both
def test_a_server_that_never_answers(transport: Transport, caplog: pytest.LogCaptureFixture) -> None:
    with transport.sink(transport.no_answer) as sink:
        sender = transport.sender({ENDPOINT: sink.endpoint, TIMEOUT: "0.3"})
        assert sender.send(PAYLOAD, SPANS) == SendResult.dropped("timeout", SPANS)
    assert "(timeout): " in caplog.text
    assert "OTEL_EXPORTER_OTLP_TIMEOUT says how long to wait" in caplog.text
