"""The senders as the environment configures them, except that they write down their waits between tries."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from otel_torchprof.telemetry.otlp_config import read_otlp_config
from otel_torchprof.telemetry.otlp_grpc import OtlpGrpcSender
from otel_torchprof.telemetry.otlp_http import OtlpHttpSender
from otel_torchprof.telemetry.otlp_sender import OtlpSender
from otel_torchprof.telemetry.send_result import SendResult
from tests.support.otlp_sink import Sink
from tests.support.requests import make_request

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
TIMEOUT = "OTEL_EXPORTER_OTLP_TIMEOUT"
SPANS = 3
PAYLOAD = make_request(SPANS).SerializeToString()


class Waits:
    """Stands in for the wait between two tries."""

    def __init__(self) -> None:
        self.waits_s: list[float] = []

    def _wait(self, delay_s: float) -> bool:
        self.waits_s.append(delay_s)
        return True


class HttpSender(Waits, OtlpHttpSender):
    """Over HTTP."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        Waits.__init__(self)
        OtlpHttpSender.__init__(self, read_otlp_config(environ, "http/protobuf"))


class GrpcSender(Waits, OtlpGrpcSender):
    """Over gRPC, whose channel has waits of its own: those are real."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        Waits.__init__(self)
        OtlpGrpcSender.__init__(self, read_otlp_config(environ, "grpc"))


def send_and_cancel(sender: OtlpSender[Any], sink: Sink) -> SendResult:
    """What becomes of `PAYLOAD` when it is cancelled once the request is at the server."""
    with ThreadPoolExecutor() as threads:
        result = threads.submit(sender.send, PAYLOAD, SPANS)
        sink.wait_for_requests(1)
        sender.cancel()
        return result.result(60)
