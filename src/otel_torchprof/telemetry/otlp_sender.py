"""What the OTLP senders have in common: one deadline, splitting, counting, fork, and never an exception."""

from __future__ import annotations

import logging
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)

from otel_torchprof.telemetry.cancellation import Cancellation
from otel_torchprof.telemetry.otlp_config import OtlpConfig
from otel_torchprof.telemetry.reason_log import ReasonLog
from otel_torchprof.telemetry.request_split import split_request
from otel_torchprof.telemetry.send_result import (
    INTERNAL_ERROR,
    SHUT_DOWN,
    TIMEOUT,
    TLS,
    TOO_LARGE,
    UNAVAILABLE,
    SendResult,
)
from otel_torchprof.version import __version__

_logger = logging.getLogger(__name__)

USER_AGENT = f"otel-torchprof/{__version__}"

ConnectionT = TypeVar("ConnectionT")

_WAYS_OUT = {
    UNAVAILABLE: "; is a Collector running there? OTEL_EXPORTER_OTLP_ENDPOINT says where to send",
    TIMEOUT: "; is a Collector running there? OTEL_EXPORTER_OTLP_TIMEOUT says how long to wait",
}

# Connections made before a fork. Their destructors would talk to threads and peers that belong to the
# parent, so a child keeps them for as long as it lives.
_of_the_parent: list[object] = []


class TooLarge(Exception):
    """The server says that a request is larger than it takes."""


class Unusable(Exception):
    """The configuration cannot work here, for a reason that a retry does not mend."""

    def __init__(self, reason: str, cause: str) -> None:
        super().__init__(cause)
        self.reason = reason


class OtlpSender(ABC, Generic[ConnectionT]):
    """Sends encoded requests; a subclass knows one transport.

    A request that the server finds too large is halved, down to one span. The size that failed is
    remembered, so that later requests are halved before they are sent.
    """

    def __init__(
        self,
        config: OtlpConfig,
        *,
        log: ReasonLog | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.config = config
        self._log = log or ReasonLog(_logger)
        self._clock = clock
        self._too_large_bytes = sys.maxsize
        self._connection: ConnectionT | None = None
        self._start_unconnected()

    @property
    def address(self) -> str:
        """See `RequestSender.address`."""
        return self.config.display_endpoint

    def send(self, payload: bytes, spans: int, *, timeout_s: float | None = None) -> SendResult:
        """Deliver `payload`, which holds `spans` spans; see `RequestSender.send`."""
        if self._pid != os.getpid():
            _of_the_parent.append(self._connection)
            self._start_unconnected()
        timeout_s = self.config.timeout_s if timeout_s is None else min(timeout_s, self.config.timeout_s)
        deadline = self._clock() + timeout_s
        result = SendResult()
        pending = [(payload, spans)]
        while pending:
            part, part_spans = pending.pop()
            if self._cancelled.is_set():
                result += SendResult.dropped(SHUT_DOWN, part_spans)
            elif self._clock() >= deadline:
                result += SendResult.dropped(TIMEOUT, part_spans)
            elif len(part) >= self._too_large_bytes and part_spans > 1:
                result += self._halve(part, part_spans, pending)
            else:
                try:
                    result += self._deliver(part, part_spans, deadline)
                except TooLarge:
                    self._too_large_bytes = min(self._too_large_bytes, len(part))
                    result += self._halve(part, part_spans, pending)
                except Unusable as error:
                    result += self._drop(error.reason, part_spans, str(error))
                except Exception as error:
                    result += self._drop(INTERNAL_ERROR, part_spans, f"{type(error).__name__}: {error}")
        return result

    def cancel(self) -> None:
        """See `RequestSender.cancel`."""
        self._cancelled.set()

    def close(self) -> None:
        """See `RequestSender.close`."""
        self._cancelled.set()
        self._connection = None

    @abstractmethod
    def _connect(self) -> ConnectionT:
        """Make the thing that holds connections. Must not wait for the peer. May raise Unusable."""

    @abstractmethod
    def _deliver(self, payload: bytes, spans: int, deadline: float) -> SendResult:
        """Try until `deadline` on our clock. Raises TooLarge for a request to be split, and Unusable."""

    def _connected(self) -> ConnectionT:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect()
        return connection

    def _start_unconnected(self) -> None:
        self._pid = os.getpid()
        self._connection = None
        self._cancelled = Cancellation()

    def _read_file(self, path: Path) -> bytes:
        """The content of a certificate or key file of the configuration."""
        try:
            return path.read_bytes()
        except OSError as error:
            raise Unusable(TLS, f"cannot read {path}: {error.strerror}") from error

    def _wait(self, delay_s: float) -> bool:
        """Wait before a retry; False when the sender was cancelled meanwhile."""
        return not self._cancelled.wait(delay_s)

    def _halve(self, payload: bytes, spans: int, pending: list[tuple[bytes, int]]) -> SendResult:
        try:
            head, tail = split_request(payload)
        except (ValueError, DecodeError):
            return self._drop(
                TOO_LARGE, spans, f"{spans} span(s) in {len(payload)} bytes are more than the server takes"
            )
        pending += (tail, head)
        return SendResult()

    def _drop(self, reason: str, spans: int, cause: str) -> SendResult:
        """Count `spans` as dropped and say so, once a reason."""
        cause = self.config.redact(cause)
        self._log.warn(
            reason,
            f"spans not sent to {self.config.display_endpoint} ({reason}): {cause}"
            + _WAYS_OUT.get(reason, ""),
        )
        return SendResult.dropped(reason, spans, cause)

    def _accepted(self, partial_success: ExportTracePartialSuccess, spans: int) -> SendResult:
        rejected = min(max(partial_success.rejected_spans, 0), spans)
        message = ""
        if rejected or partial_success.error_message:
            message = self.config.redact(partial_success.error_message) or "no reason given"
            self._log.warn(
                "partial_success", f"{self.config.display_endpoint} rejected {rejected} span(s): {message}"
            )
        return SendResult(delivered=spans - rejected, rejected=rejected, cause=message)


def parse_partial_success(body: bytes) -> ExportTracePartialSuccess:
    """The partial success in an encoded response; an empty one where the body is anything else."""
    try:
        response = ExportTraceServiceResponse.FromString(body)
    except DecodeError:
        response = ExportTraceServiceResponse()
    partial_success: ExportTracePartialSuccess = response.partial_success
    return partial_success
