"""Where metrics go: to the exporters that the environment names, and to whoever scrapes our endpoint."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from otel_torchprof.telemetry.metric_export import MetricExport
from otel_torchprof.telemetry.metric_exporters import (
    is_sdk_disabled,
    metric_exporters_from_environment,
    names_exporters,
    names_prometheus,
    read_export_interval_s,
    read_export_timeout_s,
)

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.resources import Resource

    from otel_torchprof.metrics.families import MetricFamily
    from otel_torchprof.telemetry.prometheus_endpoint import PrometheusEndpoint

_logger = logging.getLogger(__name__)

# What the SDK's own Prometheus exporter listens on.
_DEFAULT_PROMETHEUS_PORT = 9464


class MetricOutput:
    """Exports and serves what `collect` returns, from `start` to `shutdown`. Raises nothing.

    A forked child has one that is not started.

    Args:
        collect: gives all metrics as they stand.
        resource: what is known of this process; asked for late.
        environ: names the exporters.
        exporter: takes the metrics instead of those.
        prometheus_port: to listen on, plus `local_rank`; None unless `environ` names Prometheus.
        prometheus_host: the address to listen on.
        local_rank: of this process on its machine.
        is_one_of_many: whether other ranks export at the same time.
    """

    def __init__(
        self,
        collect: Callable[[], Sequence[MetricFamily]],
        resource: Callable[[], Resource],
        environ: Mapping[str, str],
        *,
        exporter: MetricExporter | None = None,
        prometheus_port: int | None = None,
        prometheus_host: str = "127.0.0.1",
        local_rank: Callable[[], int] = lambda: 0,
        is_one_of_many: bool = False,
    ) -> None:
        self._collect = collect
        self._resource = resource
        self._host = prometheus_host
        self._local_rank = local_rank
        self._export: MetricExport | None = None
        self._endpoint: PrometheusEndpoint | None = None
        self._port: int | None = None
        if is_sdk_disabled(environ):
            return
        if exporter is not None or names_exporters(environ):
            self._export = MetricExport(
                collect,
                lambda: [exporter] if exporter is not None else metric_exporters_from_environment(environ),
                resource,
                interval_s=read_export_interval_s(environ),
                timeout_s=read_export_timeout_s(environ),
                first_share=random.random() if is_one_of_many else 1.0,
            )
        self._port = prometheus_port
        if prometheus_port is None and names_prometheus(environ):
            self._port = _DEFAULT_PROMETHEUS_PORT

    @property
    def endpoint_port(self) -> int | None:
        """The port that is listened on; None while there is none."""
        return None if self._endpoint is None else self._endpoint.port

    def start(self) -> None:
        """Begin, or go on after a `pause`."""
        if self._export is not None:
            self._export.start()
        if self._port is not None:
            if self._endpoint is None:
                self._endpoint = self._make_endpoint(self._port + self._local_rank())
            if self._endpoint is not None:
                self._endpoint.start()

    def pause(self) -> None:
        """Export once more, in the background, then nothing until `start`.

        The endpoint goes on: only there can a scraper see that it is off.
        """
        if self._export is not None:
            self._export.pause()

    def flush(self, timeout_s: float) -> bool:
        """Export now; False when that did not arrive in `timeout_s`."""
        return self._export is None or self._export.flush(timeout_s)

    def shutdown(self, timeout_s: float) -> bool:
        """Export once more and close; False when that did not arrive in `timeout_s`. Idempotent."""
        if self._endpoint is not None:
            self._endpoint.stop()
        return self._export is None or self._export.shutdown(timeout_s)

    def _make_endpoint(self, port: int) -> PrometheusEndpoint | None:
        try:
            from otel_torchprof.telemetry.prometheus import TorchprofCollector
            from otel_torchprof.telemetry.prometheus_endpoint import PrometheusEndpoint
        except ImportError as error:
            self._port = None  # said once
            _logger.warning(
                "otel-torchprof: nothing listens for Prometheus: %s is not installed "
                "(pip install 'otel-torchprof[prometheus]')",
                error.name,
            )
            return None
        return PrometheusEndpoint(
            TorchprofCollector(self._collect, self._resource), port=port, host=self._host
        )
