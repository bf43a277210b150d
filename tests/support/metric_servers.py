"""OTLP servers in this process that answer as told and keep the metrics they receive: HTTP and gRPC."""

from __future__ import annotations

import gzip
from concurrent import futures
from http.server import BaseHTTPRequestHandler
from typing import Any

import grpc
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2_grpc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from tests.support.own_servers import GrpcServer, HttpServer


class MetricsServer:
    """What both servers keep."""

    def __init__(self) -> None:
        self.requests: list[ExportMetricsServiceRequest] = []

    @property
    def metrics(self) -> dict[str, Metric]:
        """Of all requests, by name."""
        return {
            metric.name: metric
            for request in self.requests
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    @property
    def resource(self) -> dict[str, str | int]:
        """The attributes of the first resource."""
        attributes = self.requests[0].resource_metrics[0].resource.attributes
        return {item.key: item.value.string_value or item.value.int_value for item in attributes}


class MetricsHttpServer(MetricsServer, HttpServer):
    """An OTLP/HTTP server on a free port of 127.0.0.1 that answers with `status`."""

    def __init__(self, status: int = 200) -> None:
        super().__init__()
        keeper = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", "0")))
                plain = gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body
                is_found = self.path == "/v1/metrics"
                if is_found and status == 200:
                    keeper.requests.append(ExportMetricsServiceRequest.FromString(plain))
                self.send_response(status if is_found else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Tests read what they need from the server."""

        self.serve_on(0, Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"


class MetricsGrpcServer(MetricsServer, GrpcServer, metrics_service_pb2_grpc.MetricsServiceServicer):
    """An OTLP/gRPC server on a free port of 127.0.0.1."""

    def __init__(self) -> None:
        super().__init__()
        self._server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
        add_to_server: Any = metrics_service_pb2_grpc.add_MetricsServiceServicer_to_server
        add_to_server(self, self._server)
        self.endpoint = f"http://127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"

    def Export(
        self, request: ExportMetricsServiceRequest, context: grpc.ServicerContext
    ) -> ExportMetricsServiceResponse:
        self.requests.append(request)
        return ExportMetricsServiceResponse()
