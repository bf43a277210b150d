"""Sending what a profile recorded as spans."""

from __future__ import annotations

import logging
import weakref

from otel_torchprof.config import Settings
from otel_torchprof.recording import Recording
from otel_torchprof.telemetry.span_sink import SpanSink

_logger = logging.getLogger(__name__)


class CycleSender:
    """Sends recordings to where the standard OpenTelemetry settings say. Nothing of it raises once made.

    Args:
        timeout_s: how long `send`, and the exit of the program, may wait.

    Raises:
        ImportError: the OpenTelemetry SDK or exporter is not installed: `pip install otel-torchprof[otlp]`.
    """

    def __init__(self, timeout_s: float) -> None:
        settings = Settings()
        self._timeout_s = timeout_s
        self._sink = SpanSink(
            max_spans_per_trace=settings.max_spans_per_trace,
            max_trace_bytes=settings.max_trace_bytes,
            min_span_duration_ns=round(settings.min_span_duration_us * 1_000),
        )
        # When nobody can send any more, or at exit: its thread must not stay for as long as the program.
        weakref.finalize(self, self._sink.shutdown, timeout_s)

    def send(self, recording: Recording) -> bool:
        """Sends a recording; False, and a line in the log, when it did not go out in time."""
        in_time = self._sink.submit(lambda: recording, len(recording), frozenset())
        in_time = in_time and self._sink.flush(self._timeout_s)
        if not in_time:
            _logger.warning("otel-torchprof: a cycle was not sent within %.0f s", self._timeout_s)
        return in_time
