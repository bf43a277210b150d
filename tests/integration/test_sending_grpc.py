"""OTLP over gRPC against a real server: delivered once, or counted by reason; nothing raises."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from otel_torchprof.telemetry.send_result import SendResult
from otel_torchprof.version import __version__
from tests.support.otlp_sink import GrpcAnswer, OtlpGrpcSink
from tests.support.requests import make_request
from tests.support.senders import ENDPOINT, PAYLOAD, TIMEOUT, GrpcSender, send_and_cancel

ROOT = Path(__file__).parents[2]


@pytest.fixture
def sink() -> Iterator[OtlpGrpcSink]:
    with OtlpGrpcSink() as server:
        yield server


def refusal(code: grpc.StatusCode, details: str = "", retry_after_s: float | None = None) -> GrpcAnswer:
    if retry_after_s is None:
        return GrpcAnswer(code, details)
    status = Status(code=code.value[0], message=details)
    detail = Any()
    delay = Duration()
    delay.FromNanoseconds(int(retry_after_s * 1e9))
    detail.Pack(RetryInfo(retry_delay=delay))
    status.details.append(detail)
    return GrpcAnswer(code, details, (("grpc-status-details-bin", status.SerializeToString()),))


def test_a_request_arrives_as_it_was_sent(sink: OtlpGrpcSink) -> None:
    assert GrpcSender({ENDPOINT: sink.endpoint}).send(PAYLOAD, 3) == SendResult(delivered=3)
    (received,) = sink.received
    assert received.request == make_request(3)
    assert received.headers["user-agent"].startswith(f"otel-torchprof/{__version__} grpc-python/")


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_compression(sink: OtlpGrpcSink, compression: str) -> None:
    sender = GrpcSender({ENDPOINT: sink.endpoint, "OTEL_EXPORTER_OTLP_COMPRESSION": compression})
    assert sender.send(make_request(500).SerializeToString(), 500).delivered == 500
    assert len(sink.spans) == 500


def test_headers_arrive_and_are_never_logged(sink: OtlpGrpcSink, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    sink.answers.append(refusal(grpc.StatusCode.UNAUTHENTICATED, "bad token s3cret-token"))
    sender = GrpcSender(
        {ENDPOINT: sink.endpoint, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20s3cret-token"}
    )
    assert sender.send(PAYLOAD, 3) == SendResult.dropped("refused", 3)
    assert sink.received[0].headers["authorization"] == "Bearer s3cret-token"
    assert "(refused): UNAUTHENTICATED: bad token ***" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    "code", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.DATA_LOSS]
)
def test_a_server_that_says_later_is_asked_again_by_the_channel(
    sink: OtlpGrpcSink, code: grpc.StatusCode
) -> None:
    sink.answers.append(refusal(code))
    # Larger than gRPC's default retry buffer, past which a call is never retried.
    payload = make_request(400, padding_bytes=1000).SerializeToString()
    assert len(payload) > 256 * 1024
    sender = GrpcSender({ENDPOINT: sink.endpoint})
    assert sender.send(payload, 400) == SendResult(delivered=400)
    assert [received.accepted for received in sink.received] == [False, True]
    assert sender.waits_s == []


@pytest.mark.parametrize(
    "code",
    [
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.PERMISSION_DENIED,
        grpc.StatusCode.UNIMPLEMENTED,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    ],
)
def test_what_a_retry_cannot_mend_is_not_tried_again(
    sink: OtlpGrpcSink, code: grpc.StatusCode, caplog: pytest.LogCaptureFixture
) -> None:
    sink.answers.append(refusal(code, "no"))
    assert GrpcSender({ENDPOINT: sink.endpoint}).send(PAYLOAD, 3) == SendResult.dropped("refused", 3)
    assert len(sink.received) == 1
    assert [record.getMessage() for record in caplog.records] == [
        f"otel-torchprof: spans not sent to 127.0.0.1:{sink.port} (refused): {code.name}: no"
    ]


@pytest.mark.parametrize(
    "details",
    ["Received http2 header with status: 404", "Trying to connect an http1.x server (HTTP status 400)"],
)
def test_a_port_that_takes_http_is_told_of(
    sink: OtlpGrpcSink, details: str, caplog: pytest.LogCaptureFixture
) -> None:
    sink.answers.append(refusal(grpc.StatusCode.UNIMPLEMENTED, details))
    GrpcSender({ENDPOINT: sink.endpoint}).send(PAYLOAD, 3)
    assert caplog.messages == [
        f"otel-torchprof: spans not sent to 127.0.0.1:{sink.port} (refused): UNIMPLEMENTED: {details}; "
        "that port takes HTTP: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or port 4317"
    ]


def test_retry_info_is_honoured(sink: OtlpGrpcSink) -> None:
    sink.answers.append(refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "throttled", retry_after_s=2.5))
    sender = GrpcSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3) == SendResult(delivered=3)
    assert sender.waits_s == [2.5]


def test_a_wait_beyond_the_deadline_is_not_begun(sink: OtlpGrpcSink) -> None:
    sink.answers.append(refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, "throttled", retry_after_s=3600))
    sender = GrpcSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3) == SendResult.dropped("refused", 3)
    assert sender.waits_s == []


def test_a_delay_of_nothing_does_not_become_a_storm(sink: OtlpGrpcSink) -> None:
    sink.answers.extend([refusal(grpc.StatusCode.RESOURCE_EXHAUSTED, retry_after_s=0)] * 3)
    sender = GrpcSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3).delivered == 3
    assert sender.waits_s == [0.1] * 3


def test_out_of_range_is_tried_again_unless_it_means_too_large(sink: OtlpGrpcSink) -> None:
    sink.answers.append(refusal(grpc.StatusCode.OUT_OF_RANGE, "try later"))
    sender = GrpcSender({ENDPOINT: sink.endpoint})
    assert sender.send(PAYLOAD, 3).delivered == 3
    assert sender.waits_s == [1.0]


@pytest.mark.parametrize(
    ("code", "details"),
    [
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "grpc: received message larger than max (5000000 vs. 4194304)"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "gRPC message exceeds maximum size 4194304: 5000000"),
        (
            grpc.StatusCode.OUT_OF_RANGE,
            "Error, message length too large: found 5000000 bytes, the limit is: 4194304",
        ),
    ],
)
def test_the_words_that_servers_have_for_too_large(
    sink: OtlpGrpcSink, code: grpc.StatusCode, details: str
) -> None:
    sink.answers.append(refusal(code, details))
    assert GrpcSender({ENDPOINT: sink.endpoint}).send(PAYLOAD, 3) == SendResult(delivered=3)
    assert [len(received.spans) for received in sink.received] == [3, 1, 2]


def test_nobody_listening(caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        sender = GrpcSender({ENDPOINT: f"http://127.0.0.1:{unused.getsockname()[1]}", TIMEOUT: "0.3"})
        result = sender.send(PAYLOAD, 3)
    assert result.delivered == 0
    assert sum(result.dropped_by_reason.values()) == 3
    assert result.dropped_by_reason.keys() <= {"unavailable", "timeout"}
    (line,) = caplog.messages
    assert "Connection refused" in result.cause
    assert "Connection refused" in line


def test_a_listener_that_speaks_no_http2_never_answers() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        sender = GrpcSender({ENDPOINT: f"http://127.0.0.1:{listener.getsockname()[1]}"})
        assert sender.send(PAYLOAD, 3, timeout_s=0.3) == SendResult.dropped("timeout", 3)


def test_cancel_ends_a_call_in_progress(sink: OtlpGrpcSink) -> None:
    sink.answers.append(GrpcAnswer(hangs=True))
    sender = GrpcSender({ENDPOINT: sink.endpoint, TIMEOUT: "3600"})
    assert send_and_cancel(sender, sink) == SendResult.dropped("shut_down", 3)
    assert sender.send(PAYLOAD, 3) == SendResult.dropped("shut_down", 3)
    sender.close()


def test_a_unix_socket(tmp_path: Path) -> None:
    address = f"unix:{tmp_path / 'otel.sock'}"
    with OtlpGrpcSink(address=address) as sink:
        assert GrpcSender({ENDPOINT: address}).send(PAYLOAD, 3) == SendResult(delivered=3)
        assert len(sink.spans) == 3


def test_a_forked_child_has_a_channel_of_its_own(sink: OtlpGrpcSink) -> None:
    # In a process of its own: what other tests have done with gRPC would be forked too.
    program = """
import os, sys
from otel_torchprof.telemetry.exporters import otlp_sender
from tests.support.requests import make_request
payload = make_request(3).SerializeToString()
sender = otlp_sender(os.environ, "grpc")
delivered = [sender.send(payload, 3).delivered]
pid = os.fork()
if pid == 0:
    os._exit(sender.send(payload, 3).delivered)
delivered.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
delivered.append(sender.send(payload, 3).delivered)
print(delivered)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, ENDPOINT: sink.endpoint},
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == "[3, 3, 3]\n"
    assert len(sink.spans) == 9
