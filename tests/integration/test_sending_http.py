"""OTLP over HTTP against a real server: delivered once, or counted by reason; nothing raises."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_torchprof.telemetry.otlp_config import read_otlp_config
from otel_torchprof.telemetry.otlp_http import OtlpHttpSender
from otel_torchprof.telemetry.send_result import SendResult
from otel_torchprof.version import __version__
from tests.support.otlp_sink import HttpAnswer, OtlpGrpcSink, OtlpHttpSink
from tests.support.requests import make_request
from tests.support.senders import ENDPOINT, PAYLOAD, TIMEOUT, HttpSender, send_and_cancel


@pytest.fixture
def sink() -> Iterator[OtlpHttpSink]:
    with OtlpHttpSink() as server:
        yield server


def test_a_request_arrives_as_it_was_sent(sink: OtlpHttpSink) -> None:
    assert HttpSender({ENDPOINT: sink.endpoint}).send(PAYLOAD, 3) == SendResult(delivered=3)
    (received,) = sink.received
    assert received.request == make_request(3)
    assert received.path == "/v1/traces"
    assert received.headers["content-type"] == "application/x-protobuf"
    assert received.headers["user-agent"] == f"otel-torchprof/{__version__}"
    assert "content-encoding" not in received.headers


def test_one_connection_serves_many_requests(sink: OtlpHttpSink) -> None:
    sender = HttpSender({ENDPOINT: sink.endpoint})
    for _ in range(5):
        assert sender.send(PAYLOAD, 3).delivered == 3
    assert len(sink.received) == 5
    assert len({received.peer for received in sink.received}) == 1


def test_gzip(sink: OtlpHttpSink) -> None:
    payload = make_request(500).SerializeToString()
    sender = HttpSender({ENDPOINT: sink.endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"})
    assert sender.send(payload, 500).delivered == 500
    (received,) = sink.received
    assert received.headers["content-encoding"] == "gzip"
    assert received.request == make_request(500)
    assert received.body_bytes < len(payload) / 3


def test_headers_arrive_and_are_never_logged(sink: OtlpHttpSink, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sink.answers.extend([HttpAnswer(401), HttpAnswer(400, body=b"bad token s3cret-token")])
    sender = HttpSender(
        {
            ENDPOINT: sink.endpoint,
            "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20s3cret-token,x-tenant=a",
        }
    )
    for _ in range(3):
        sender.send(PAYLOAD, 3)
    assert sink.received[0].headers["authorization"] == "Bearer s3cret-token"
    assert sink.received[0].headers["x-tenant"] == "a"
    assert "refused" in caplog.text
    assert "s3cret" not in caplog.text


def test_user_name_and_password_of_the_endpoint_become_a_header(
    sink: OtlpHttpSink, caplog: pytest.LogCaptureFixture
) -> None:
    sink.answers.append(HttpAnswer(403))
    sender = HttpSender({ENDPOINT: sink.endpoint.replace("http://", "http://me:p%40ss@")})
    sender.send(PAYLOAD, 3)
    assert sink.received[0].headers["authorization"] == "Basic bWU6cEBzcw=="
    assert [record.getMessage() for record in caplog.records] == [
        f"otel-torchprof: spans not sent to {sink.endpoint}/v1/traces (refused): 403 Forbidden"
    ]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_server_that_says_later_is_asked_again(sink: OtlpHttpSink, status: int) -> None:
    sink.answers.extend([HttpAnswer(status)] * 3)
    sender = HttpSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3) == SendResult(delivered=3)
    assert len(sink.received) == 4
    for wait_s, backoff_s in zip(sender.waits_s, [0.5, 1.0, 2.0], strict=True):
        assert backoff_s * 0.8 <= wait_s <= backoff_s * 1.2


def test_retries_end_after_six_tries(sink: OtlpHttpSink, caplog: pytest.LogCaptureFixture) -> None:
    sink.answers.extend([HttpAnswer(503)] * 20)
    assert HttpSender({ENDPOINT: sink.endpoint}).send(PAYLOAD, 3) == SendResult.dropped("unavailable", 3)
    assert len(sink.received) == 6
    assert [record.getMessage() for record in caplog.records] == [
        f"otel-torchprof: spans not sent to {sink.endpoint}/v1/traces (unavailable): 503 Service Unavailable"
        "; is a Collector running there? OTEL_EXPORTER_OTLP_ENDPOINT says where to send"
    ]


def test_retry_after_in_seconds_is_honoured(sink: OtlpHttpSink) -> None:
    sink.answers.append(HttpAnswer(429, headers={"retry-after": "3"}))
    sender = HttpSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3).delivered == 3
    assert sender.waits_s == [3.0]


def test_retry_after_as_a_date_is_honoured(sink: OtlpHttpSink) -> None:
    at = datetime.now(timezone.utc) + timedelta(seconds=100)
    sink.answers.append(HttpAnswer(503, headers={"retry-after": format_datetime(at, usegmt=True)}))
    sender = HttpSender({ENDPOINT: sink.endpoint, TIMEOUT: "500"})
    assert sender.send(PAYLOAD, 3).delivered == 3
    assert len(sender.waits_s) == 1
    assert 1 < sender.waits_s[0] <= 100


def test_retry_after_that_is_garbage_is_passed_over(sink: OtlpHttpSink) -> None:
    sink.answers.append(HttpAnswer(503, headers={"retry-after": "soon"}))
    sender = HttpSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3).delivered == 3
    assert 0.4 <= sender.waits_s[0] <= 0.6


def test_a_wait_beyond_the_deadline_is_not_begun(sink: OtlpHttpSink) -> None:
    sink.answers.append(HttpAnswer(503, headers={"retry-after": "3600"}))
    sender = HttpSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3) == SendResult.dropped("unavailable", 3)
    assert sender.waits_s == []


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500, 501])
def test_what_a_retry_cannot_mend_is_not_tried_again(sink: OtlpHttpSink, status: int) -> None:
    sink.answers.append(HttpAnswer(status))
    assert HttpSender({ENDPOINT: sink.endpoint}).send(PAYLOAD, 3) == SendResult.dropped("refused", 3)
    assert len(sink.received) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_headers_are_not_sent_after_a_redirect(
    sink: OtlpHttpSink, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    with OtlpHttpSink() as other:
        location = f"{other.endpoint}/v1/traces?token=s3cret"
        sink.answers.append(HttpAnswer(status, headers={"location": location}))
        sender = HttpSender({ENDPOINT: sink.endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "api-key=k3y"})
        assert sender.send(PAYLOAD, 3) == SendResult.dropped("redirected", 3)
        assert other.received == []
    assert f"{status}, to 127.0.0.1:{other.port}; set the endpoint to that address" in caplog.text
    assert "s3cret" not in caplog.text


def partial_success(rejected: int, message: str) -> ExportTraceServiceResponse:
    response = ExportTraceServiceResponse()
    response.partial_success.rejected_spans = rejected
    response.partial_success.error_message = message
    return response


@pytest.mark.parametrize(
    ("body", "content_type", "rejected"),
    [
        (b'{"partialSuccess":{"rejectedSpans":"2"}}', "application/json", 2),
        (b"{}", "application/json; charset=utf-8", 0),
        (b"{", "application/json", 0),
        (b"\xff\xff", "application/x-protobuf", 0),
        (b"<html>ok</html>", "text/html", 0),
        (partial_success(99, "").SerializeToString(), "application/x-protobuf", 3),
        (partial_success(-1, "").SerializeToString(), "application/x-protobuf", 0),
        (b"x" * 1_000_000, "text/plain", 0),
    ],
)
def test_any_answer_with_status_200_is_a_delivery(
    sink: OtlpHttpSink, body: bytes, content_type: str, rejected: int
) -> None:
    sink.answers.append(HttpAnswer(body=body, headers={"content-type": content_type}))
    sender = HttpSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3) == SendResult(delivered=3 - rejected, rejected=rejected)
    assert sender.send(PAYLOAD, 3) == SendResult(delivered=3), "the connection is still good"


def test_the_size_that_fits_is_looked_for_once() -> None:
    request = make_request(64, padding_bytes=1000)
    with OtlpHttpSink(max_request_bytes=10_000) as sink:
        sender = HttpSender({ENDPOINT: sink.endpoint})
        assert sender.send(request.SerializeToString(), 64) == SendResult(delivered=64)
        assert [len(received.spans) for received in sink.received if not received.accepted] == [64, 32, 16]
        assert sender.send(request.SerializeToString(), 64) == SendResult(delivered=64)
        assert sum(not received.accepted for received in sink.received) == 3


def test_a_port_that_takes_grpc_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    with OtlpGrpcSink() as grpc_sink:
        result = HttpSender({ENDPOINT: grpc_sink.endpoint}).send(PAYLOAD, 3)
    assert result == SendResult.dropped("unavailable", 3)
    (line,) = caplog.messages
    assert "; if that port takes gRPC, set OTEL_EXPORTER_OTLP_PROTOCOL=grpc, or port 4318;" in line
    assert "\\x" not in line


def test_nobody_listening(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        sender = HttpSender({ENDPOINT: f"http://127.0.0.1:{unused.getsockname()[1]}"})
        assert sender.send(PAYLOAD, 3) == SendResult.dropped("unavailable", 3)
    assert len(sender.waits_s) == 5
    (record,) = caplog.records
    assert "(unavailable): " in record.getMessage()
    assert record.getMessage().endswith(
        "Failed to establish a new connection: [Errno 111] Connection refused"
        "; is a Collector running there? OTEL_EXPORTER_OTLP_ENDPOINT says where to send"
    )


def test_a_name_that_does_not_resolve() -> None:
    sender = HttpSender({ENDPOINT: "http://collector.invalid:4318"})
    assert sender.send(PAYLOAD, 3) == SendResult.dropped("unavailable", 3)


def test_a_connection_that_drops_is_tried_again(sink: OtlpHttpSink) -> None:
    sink.answers.extend([HttpAnswer(), HttpAnswer(closes=True)])
    sender = HttpSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3).delivered == 3
    assert sender.send(PAYLOAD, 3).delivered == 3
    assert [received.accepted for received in sink.received] == [True, False, True]


def test_the_callers_time_is_the_smaller_of_the_two(sink: OtlpHttpSink) -> None:
    sink.answers.append(HttpAnswer(hangs=True))
    sender = HttpSender({ENDPOINT: sink.endpoint, TIMEOUT: "3600"})
    assert sender.send(PAYLOAD, 3, timeout_s=0.2) == SendResult.dropped("timeout", 3)
    assert len(sink.wait_for_requests(1)) == 1
    assert sender.send(PAYLOAD, 3, timeout_s=0.0) == SendResult.dropped("timeout", 3)
    assert len(sink.received) == 1


def test_cancel_ends_a_wait_between_tries(sink: OtlpHttpSink) -> None:
    sink.answers.append(HttpAnswer(503, headers={"retry-after": "3000"}))
    sender = OtlpHttpSender(read_otlp_config({ENDPOINT: sink.endpoint, TIMEOUT: "3600"}, "http/protobuf"))
    assert send_and_cancel(sender, sink) == SendResult.dropped("shut_down", 3)
    assert sender.send(PAYLOAD, 3) == SendResult.dropped("shut_down", 3)


def test_a_proxy_of_the_environment_is_used(sink: OtlpHttpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", sink.endpoint.replace("http://", "http://user:pa%20ss@"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert HttpSender({ENDPOINT: "http://collector.invalid:4318"}).send(PAYLOAD, 3).delivered == 3
    (received,) = sink.received
    assert received.path == "http://collector.invalid:4318/v1/traces"
    assert received.headers["proxy-authorization"] == "Basic dXNlcjpwYSBzcw=="


def test_a_socks_proxy_needs_a_package(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "urllib3.contrib.socks", None)
    monkeypatch.setenv("all_proxy", "socks5://proxy.invalid:1080")
    sender = HttpSender({ENDPOINT: "http://collector.invalid:4318"})
    assert sender.send(PAYLOAD, 3) == SendResult.dropped("unavailable", 3)
    assert "a SOCKS proxy needs `pip install 'urllib3[socks]'`" in caplog.text


def test_no_proxy_is_respected(sink: OtlpHttpSink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert HttpSender({ENDPOINT: sink.endpoint}).send(PAYLOAD, 3).delivered == 3


def test_a_forked_child_has_a_connection_of_its_own(sink: OtlpHttpSink) -> None:
    sender = OtlpHttpSender(read_otlp_config({ENDPOINT: sink.endpoint}, "http/protobuf"))
    sender.send(PAYLOAD, 3)
    connection_of_the_parent = sender._connected()
    pid = os.fork()
    if pid == 0:
        delivered = sender.send(PAYLOAD, 3).delivered
        os._exit(0 if delivered == 3 and sender._connected() is not connection_of_the_parent else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert sender.send(PAYLOAD, 3).delivered == 3
    assert len(sink.spans) == 9


def test_a_bug_of_ours_is_counted_and_not_raised(
    sink: OtlpHttpSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sender = HttpSender({ENDPOINT: sink.endpoint})

    def fail() -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(sender, "_connect", fail)
    assert sender.send(PAYLOAD, 3) == SendResult.dropped("internal_error", 3)
    assert "ZeroDivisionError: a bug" in caplog.text
