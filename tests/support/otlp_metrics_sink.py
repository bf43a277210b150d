"""An OTLP/HTTP server in this process that keeps the metrics it receives, and lets everything else go by."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from tests.support.own_servers import HttpServer


class OtlpMetricsSink(HttpServer):
    """Listens on a free port of 127.0.0.1; `endpoint` is its base URL."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[ExportMetricsServiceRequest] = []
        self.serve_on(0, self._handler_class())
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def requests(self) -> list[ExportMetricsServiceRequest]:
        with self._changed:
            return list(self._requests)

    def named(self, name: str) -> list[Metric]:
        """That metric of every request, in order of arrival."""
        return [
            metric
            for request in self.requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
        ]

    def resources(self) -> list[dict[str, str]]:
        """The text attributes of every resource with metrics of ours: the SDK may send its own."""
        return [
            {item.key: item.value.string_value for item in resource.resource.attributes}
            for request in self.requests
            for resource in request.resource_metrics
            if any(scope.scope.name == "otel_torchprof" for scope in resource.scope_metrics)
        ]

    def wait_for(self, condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Wait until `condition`, asked after each request, holds; fails the test after `timeout_s`."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout_s), f"{len(self._requests)} requests arrived"

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                if self.path.endswith("/v1/metrics"):
                    request = ExportMetricsServiceRequest.FromString(body)
                    with sink._changed:
                        sink._requests.append(request)
                        sink._changed.notify_all()
                self.send_response(200)
                self.send_header("content-type", "application/x-protobuf")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Tests read what they need from the sink."""

        return Handler
