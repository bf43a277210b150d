"""OTLP over gRPC: ready bytes through a channel's unary call, retried by the channel's service config."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from otel_torchprof.telemetry.otlp_sender import (
    USER_AGENT,
    OtlpSender,
    TooLarge,
    Unusable,
    parse_partial_success,
)
from otel_torchprof.telemetry.reachability import connection_failure
from otel_torchprof.telemetry.send_result import REFUSED, SHUT_DOWN, TIMEOUT, TLS, UNAVAILABLE, SendResult

_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"
_METHOD = f"/{_SERVICE}/Export"

# OUT_OF_RANGE is retryable in OTLP but is also how some servers say "too large": it is retried here, not by
# the channel, which cannot tell the two apart.
_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": _SERVICE}],
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.5s",
                "maxBackoff": "5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": [
                    "CANCELLED",
                    "DEADLINE_EXCEEDED",
                    "ABORTED",
                    "UNAVAILABLE",
                    "DATA_LOSS",
                ],
            },
        }
    ]
}
_CHANNEL_OPTIONS = (
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ("grpc.service_config_disable_resolution", 1),
    # A message larger than this buffer (256 KiB by default) is never retried.
    ("grpc.per_rpc_retry_buffer_size", 64 << 20),
    ("grpc.initial_reconnect_backoff_ms", 500),
    ("grpc.max_reconnect_backoff_ms", 5000),
    ("grpc.primary_user_agent", USER_AGENT),
)
_RETRIED_WITH_RETRY_INFO = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.ABORTED}
)
_OUT_OF_RANGE_DELAY_S = 1.0
_MIN_DELAY_S = 0.1
_TOO_LARGE_CODES = frozenset({grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE})
# grpc-go and grpc-core, tonic, grpc-java: each has its own words.
_TOO_LARGE_TEXT = re.compile(r"larger than max|length too large|exceeds maximum size", re.IGNORECASE)
_TLS_TEXT = re.compile(r"handshake|certificate|\bssl\b|\btls\b", re.IGNORECASE)

# What gRPC makes of the answers of a server that takes OTLP over HTTP only.
_HTTP_SERVER_TEXT = re.compile(r"http2 header with status|http1\.x server", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Connection:
    channel: grpc.Channel
    export: grpc.UnaryUnaryMultiCallable


class OtlpGrpcSender(OtlpSender[_Connection]):
    """Sends encoded requests by gRPC; settings are in `OtlpConfig`, manners in `OtlpSender`.

    gzip is gRPC's own, whose level cannot be chosen.
    """

    def cancel(self) -> None:
        super().cancel()
        connection = self._connection
        if connection is not None:
            connection.channel.close()

    def close(self) -> None:
        self.cancel()
        super().close()

    def _connect(self) -> _Connection:
        if self.config.insecure:
            channel = grpc.insecure_channel(self.config.endpoint, options=_CHANNEL_OPTIONS)
        else:
            channel = grpc.secure_channel(self.config.endpoint, self._credentials(), options=_CHANNEL_OPTIONS)
        # Without serializers the call takes and gives bytes.
        export = channel.unary_unary(_METHOD, request_serializer=None, response_deserializer=None)
        return _Connection(channel, export)

    def _credentials(self) -> grpc.ChannelCredentials:
        roots, key, certificate = (
            self._read_file(path) if path else None
            for path in (
                self.config.certificate_file,
                self.config.client_key_file,
                self.config.client_certificate_file,
            )
        )
        if (key is None) != (certificate is None):
            raise Unusable(TLS, "a client certificate and its key are needed both or neither")
        return grpc.ssl_channel_credentials(roots, key, certificate)

    def _deliver(self, payload: bytes, spans: int, deadline: float) -> SendResult:
        export = self._connected().export
        compression = grpc.Compression.Gzip if self.config.compression == "gzip" else None
        while True:
            try:
                answer = export(
                    payload,
                    timeout=max(deadline - self._clock(), 0.001),
                    metadata=self.config.headers,
                    compression=compression,
                )
                return self._accepted(parse_partial_success(answer), spans)
            except (grpc.RpcError, ValueError) as error:
                # ValueError: a call on a channel that `cancel` has closed.
                if self._cancelled.is_set():
                    return SendResult.dropped(SHUT_DOWN, spans, self._why_no_answer())
                if not isinstance(error, grpc.RpcError):
                    raise
                delay_s = self._delay_before_retry(error)
                if delay_s is None or self._clock() + delay_s >= deadline:
                    return self._failed(error, spans)
                if not self._wait(delay_s):
                    return SendResult.dropped(SHUT_DOWN, spans)

    def _delay_before_retry(self, error: grpc.RpcError) -> float | None:
        """Seconds to wait where another try is asked for; None where the channel has done all it can.

        Raises TooLarge.
        """
        code, details = error.code(), error.details() or ""
        if code in _TOO_LARGE_CODES and _TOO_LARGE_TEXT.search(details):
            raise TooLarge
        if code is grpc.StatusCode.OUT_OF_RANGE:
            return _OUT_OF_RANGE_DELAY_S
        if code in _RETRIED_WITH_RETRY_INFO:
            delay_s = _retry_info_s(error)
            return None if delay_s is None else max(delay_s, _MIN_DELAY_S)
        return None

    def _why_no_answer(self) -> str:
        """What the channel does not tell while it retries."""
        return connection_failure(self.config.endpoint) or "no answer in time"

    def _failed(self, error: grpc.RpcError, spans: int) -> SendResult:
        code, details = error.code(), error.details() or ""
        cause = f"{code.name}: {details}"
        if _HTTP_SERVER_TEXT.search(details):
            cause += "; that port takes HTTP: set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf, or port 4317"
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return self._drop(TIMEOUT, spans, f"{code.name}: {self._why_no_answer()}")
        if code is grpc.StatusCode.UNAVAILABLE and not self.config.insecure and _TLS_TEXT.search(details):
            return self._drop(TLS, spans, cause)
        if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED, grpc.StatusCode.OUT_OF_RANGE):
            return self._drop(UNAVAILABLE, spans, cause)
        return self._drop(REFUSED, spans, cause)


def _retry_info_s(error: grpc.RpcError) -> float | None:
    """The delay in the error's `google.rpc.RetryInfo`; None where there is none."""
    for name, value in error.trailing_metadata() or ():
        try:
            if name == "grpc-status-details-bin":
                for detail in Status.FromString(value).details:
                    retry_info = RetryInfo()
                    if detail.Unpack(retry_info):
                        return _seconds(retry_info)
            elif name == "google.rpc.retryinfo-bin":
                return _seconds(RetryInfo.FromString(value))
        except DecodeError:
            continue
    return None


def _seconds(retry_info: RetryInfo) -> float:
    return float(retry_info.retry_delay.seconds + retry_info.retry_delay.nanos / 1e9)
