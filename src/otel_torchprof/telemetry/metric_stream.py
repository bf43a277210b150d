"""One exporter of metrics and what it has had so far."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from opentelemetry.instrumentation.utils import suppress_instrumentation

from otel_torchprof.telemetry.exporter_logs import kept_logs
from otel_torchprof.telemetry.metric_data import preferences_of, to_metrics_data
from otel_torchprof.telemetry.metric_differences import Differences
from otel_torchprof.telemetry.otlp_config import redact, secrets_of
from otel_torchprof.telemetry.reason_log import ReasonLog

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.resources import Resource

    from otel_torchprof.metrics.families import MetricFamily

_logger = logging.getLogger(__name__)

# Older exporters wait as long as this for an export in progress before they end it.
_SHUTDOWN_TIMEOUT_MS = 250.0
# The SDK's exporters say at length what they did before they come to the cause.
_MAX_FAILURE_CHARS = 400
_RETRY = re.compile(r",? retrying in [\d.]+s\.?")


class MetricStream:
    """Hands metrics to one exporter as it prefers them. Raises nothing.

    Args:
        exporter: of the SDK's interface; shut down by `close`.
    """

    def __init__(self, exporter: MetricExporter) -> None:
        self.exporter = exporter
        self._preferences = preferences_of(exporter)
        self._differences = Differences(
            of_counters=self._preferences.delta_counters, of_histograms=self._preferences.delta_histograms
        )
        self._log = ReasonLog(_logger)
        self._close_lock = threading.RLock()
        self._closed = False
        # Why the last export did not arrive, fit for a log; empty where it did.
        self.last_failure = ""

    def export(
        self, families: Sequence[MetricFamily], resource: Resource, collected_ns: int, timeout_s: float
    ) -> bool:
        """Export `families`, collected at `collected_ns`; False when they did not arrive."""
        cause = self._try(families, resource, collected_ns, timeout_s)
        if cause is None:
            self.last_failure = ""
        if cause is not None and not self._closed:
            self._log.warn("failed", f"metrics not exported by {type(self.exporter).__name__}: {cause}")
        return cause is None

    def close(self) -> None:
        """Shut the exporter down, also while another thread exports. Idempotent."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
        try:
            with kept_logs(self.exporter):
                self.exporter.shutdown(timeout_millis=_SHUTDOWN_TIMEOUT_MS)
        except Exception as error:
            self._log.warn("shutdown", f"{type(self.exporter).__name__} did not shut down: {error}")

    def _try(
        self, families: Sequence[MetricFamily], resource: Resource, collected_ns: int, timeout_s: float
    ) -> str | None:
        """None when they arrived, else why not."""
        from opentelemetry.sdk.metrics.export import MetricExportResult

        try:
            wanted = self._differences.since_delivered(families, collected_ns)
            data = to_metrics_data(wanted, resource, collected_ns, self._preferences)
            # Sending metrics must not make spans.
            with kept_logs(self.exporter) as messages, suppress_instrumentation():
                result = self.exporter.export(data, timeout_millis=timeout_s * 1e3)
            if result is MetricExportResult.SUCCESS:
                self._differences.delivered()
                return None
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if not messages:
            return f"export returned {result}"
        # The first says what is wrong, the last what became of it: for one that was ended, only that it was.
        self.last_failure = redact(_RETRY.sub(".", messages[0]), secrets_of(os.environ), _MAX_FAILURE_CHARS)
        return messages[-1]
