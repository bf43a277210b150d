"""OTLP servers in this process that keep what they receive: one over HTTP, one over gRPC.

Each answers 200 / OK unless answers were queued, which are then used up in order.
"""

from __future__ import annotations

import gzip
import ssl
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.own_servers import GrpcServer, HttpServer


@dataclass(frozen=True)
class Received:
    """One request as it arrived; `headers` has lower-case names."""

    request: ExportTraceServiceRequest
    headers: Mapping[str, str]
    accepted: bool
    path: str = ""
    body_bytes: int = 0
    peer: tuple[str, int] | None = None

    @property
    def spans(self) -> list[Span]:
        return [
            span for item in self.request.resource_spans for scope in item.scope_spans for span in scope.spans
        ]


class Sink:
    """What both servers keep. Only accepted requests count as received spans."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._received: list[Received] = []
        # Answers that hang wait for this.
        self.released = threading.Event()

    @property
    def received(self) -> list[Received]:
        """All requests, refused ones too, in order of arrival."""
        with self._changed:
            return list(self._received)

    @property
    def spans(self) -> list[Span]:
        return [span for received in self.received if received.accepted for span in received.spans]

    @property
    def span_names(self) -> Counter[str]:
        return Counter(span.name for span in self.spans)

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 30.0) -> None:
        """Wait until `condition`, asked after each request, holds; fails the test after `timeout_s`."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout_s), f"{len(self._received)} requests arrived"

    def wait_for_spans(self, count: int, timeout_s: float = 30.0) -> list[Span]:
        """The received spans once there are `count`; fails the test after `timeout_s`."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self.spans) >= count, timeout_s)
        assert enough, f"{len(self.spans)} of {count} spans arrived within {timeout_s} s"
        return self.spans

    def wait_for_requests(self, count: int, timeout_s: float = 30.0) -> list[Received]:
        """All requests once there are `count`; fails the test after `timeout_s`."""
        with self._changed:
            enough = self._changed.wait_for(lambda: len(self._received) >= count, timeout_s)
        assert enough, f"{len(self.received)} of {count} requests arrived within {timeout_s} s"
        return self.received

    def _keep(self, received: Received) -> None:
        with self._changed:
            self._received.append(received)
            self._changed.notify_all()


@dataclass(frozen=True)
class HttpAnswer:
    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    hangs: bool = False
    closes: bool = False  # drops the connection without an answer


class OtlpHttpSink(Sink, HttpServer):
    """An OTLP/HTTP server on a free port of 127.0.0.1; with `max_request_bytes` larger bodies get 413."""

    def __init__(
        self,
        *answers: HttpAnswer,
        max_request_bytes: int | None = None,
        tls: ssl.SSLContext | None = None,
        port: int = 0,
    ) -> None:
        super().__init__()
        self.answers = deque(answers)
        self.max_request_bytes = max_request_bytes
        self.serve_on(port, self._handler_class())
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"

    def __exit__(self, *_: object) -> None:
        self.released.set()
        super().__exit__()

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                answer = sink._answer_to(self, body)
                if answer.hangs:
                    sink.released.wait()
                if answer.hangs or answer.closes:
                    self.close_connection = True
                    return
                self.send_response(answer.status)
                for name, value in {"content-type": "application/x-protobuf", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer.body)))
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: Any) -> None:
                """Tests read what they need from the sink."""

        return Handler

    def _answer_to(self, handler: BaseHTTPRequestHandler, body: bytes) -> HttpAnswer:
        headers = {name.lower(): value for name, value in handler.headers.items()}
        plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
        with self._changed:
            if self.max_request_bytes is not None and len(plain) > self.max_request_bytes:
                answer = HttpAnswer(413)
            else:
                answer = self.answers.popleft() if self.answers else HttpAnswer()
        accepted = answer.status == 200 and not answer.hangs and not answer.closes
        request = ExportTraceServiceRequest.FromString(plain)
        self._keep(Received(request, headers, accepted, handler.path, len(body), handler.client_address))
        return answer


@dataclass(frozen=True)
class GrpcAnswer:
    code: grpc.StatusCode = grpc.StatusCode.OK
    details: str = ""
    trailing_metadata: Sequence[tuple[str, bytes | str]] = ()
    response: ExportTraceServiceResponse = field(default_factory=ExportTraceServiceResponse)
    hangs: bool = False


class OtlpGrpcSink(Sink, GrpcServer, trace_service_pb2_grpc.TraceServiceServicer):
    """An OTLP/gRPC server; `address` is a free port of 127.0.0.1 or, for example, `unix:/path`."""

    def __init__(
        self,
        *answers: GrpcAnswer,
        max_request_bytes: int = 4 << 20,
        credentials: grpc.ServerCredentials | None = None,
        address: str = "127.0.0.1:0",
    ) -> None:
        super().__init__()
        self.answers = deque(answers)
        self._server = grpc.server(
            futures.ThreadPoolExecutor(max_workers=8),
            options=[("grpc.max_receive_message_length", max_request_bytes), ("grpc.so_reuseport", 0)],
        )
        add_to_server: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
        add_to_server(self, self._server)
        if credentials is None:
            self.port = self._server.add_insecure_port(address)
        else:
            self.port = self._server.add_secure_port(address, credentials)
        self.endpoint = f"{'http' if credentials is None else 'https'}://127.0.0.1:{self.port}"

    def __exit__(self, *_: object) -> None:
        self.released.set()
        super().__exit__()

    def Export(
        self, request: ExportTraceServiceRequest, context: grpc.ServicerContext
    ) -> ExportTraceServiceResponse:
        with self._changed:
            answer = self.answers.popleft() if self.answers else GrpcAnswer()
        headers = {str(name): str(value) for name, value in context.invocation_metadata()}
        accepted = answer.code is grpc.StatusCode.OK and not answer.hangs
        self._keep(Received(request, headers, accepted))
        if answer.hangs:
            self.released.wait()
        if answer.trailing_metadata:
            context.set_trailing_metadata(tuple(answer.trailing_metadata))
        if answer.code is not grpc.StatusCode.OK:
            context.abort(answer.code, answer.details)
        return answer.response
