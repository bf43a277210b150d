"""Sending what a profile recorded as spans."""

from __future__ import annotations

import logging
import os
import weakref

from otel_torchprof.config import SETTINGS, Settings
from otel_torchprof.recording import Recording
from otel_torchprof.telemetry.redaction import RedactionHook, Redactor
from otel_torchprof.telemetry.span_sink import SpanSink

_logger = logging.getLogger(__name__)

(_REDACT,) = (setting for setting in SETTINGS if setting.field == "redact")


class CycleSender:
    """Sends recordings to where the standard OpenTelemetry settings say. Nothing of it raises once made.

    Args:
        timeout_s: how long `send`, and the exit of the program, may wait.
        redact: what texts pass, or its name; None asks `OTEL_PYTHON_TORCHPROF_REDACT`.

    Raises:
        ImportError: the OpenTelemetry SDK or exporter is not installed: `pip install otel-torchprof[otlp]`.
        SettingError: the redaction hook is none.
    """

    def __init__(self, timeout_s: float, redact: RedactionHook | str | None = None) -> None:
        settings = Settings(redact=_REDACT.read({_REDACT.option: redact}, os.environ))
        self._timeout_s = timeout_s
        self._sink = SpanSink(
            max_spans_per_trace=settings.max_spans_per_trace,
            max_trace_bytes=settings.max_trace_bytes,
            min_span_duration_ns=round(settings.min_span_duration_us * 1_000),
            redactor=None if settings.redact is None else Redactor(settings.redact),
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
