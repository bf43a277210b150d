"""Metrics of a recording, sent once or served to be scraped."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult
from opentelemetry.sdk.resources import Resource

from otel_torchprof.metrics.families import MetricFamily
from otel_torchprof.telemetry.exporter_logs import kept_logs
from otel_torchprof.telemetry.metric_data import preferences_of, to_metrics_data

if TYPE_CHECKING:
    from otel_torchprof.telemetry.prometheus_endpoint import PrometheusEndpoint

_HTTP_PATH = "/v1/metrics"
_ENDPOINT_LOGGER = "otel_torchprof.telemetry.prometheus_endpoint"


def send_metrics(
    families: Sequence[MetricFamily],
    resource_attributes: Mapping[str, str | int],
    collected_ns: int,
    *,
    endpoint: str,
    protocol: str,
) -> str:
    """Sends metrics to an OTLP server; returns why they did not arrive, empty when they did.

    Other settings of the exporter are those of `OTEL_EXPORTER_OTLP_*`.

    Args:
        collected_ns: the unix time at which the values were so.
        endpoint: the server's URL, without a path of metrics.
        protocol: `grpc` or `http/protobuf`.

    Raises:
        ImportError: the exporter of this protocol is not installed.
    """
    exporter = _exporter(endpoint, protocol)
    try:
        data = to_metrics_data(
            families, Resource(resource_attributes), collected_ns, preferences_of(exporter)
        )
        with kept_logs(exporter) as messages:
            result = exporter.export(data)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    finally:
        with kept_logs(exporter):
            exporter.shutdown()
    if result is MetricExportResult.SUCCESS:
        return ""
    return messages[-1] if messages else "refused"


def _exporter(endpoint: str, protocol: str) -> MetricExporter:
    if protocol == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter

        return GrpcExporter(endpoint=endpoint)
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter

    return HttpExporter(endpoint=endpoint.rstrip("/") + _HTTP_PATH)


def serve_metrics(
    families: Sequence[MetricFamily], resource_attributes: Mapping[str, str | int], port: int
) -> PrometheusEndpoint | None:
    """Listens on a port of the loopback interface, 0 = a free one; None where that is not possible.

    Raises:
        ImportError: prometheus_client is not installed.
    """
    from otel_torchprof.telemetry.prometheus import TorchprofCollector
    from otel_torchprof.telemetry.prometheus_endpoint import PrometheusEndpoint

    resource = Resource(resource_attributes)
    endpoint = PrometheusEndpoint(TorchprofCollector(lambda: families, lambda: resource), port=port)
    # Whoever asked for the port hears of it from the return value.
    logger = logging.getLogger(_ENDPOINT_LOGGER)
    was_disabled, logger.disabled = logger.disabled, True
    try:
        return endpoint if endpoint.start() else None
    finally:
        logger.disabled = was_disabled
