"""Which metric exporters `OTEL_METRICS_EXPORTER` asks for, and how often they are to export."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter

_logger = logging.getLogger(__name__)

_ENTRY_POINT_GROUP = "opentelemetry_metrics_exporter"
_ENTRY_POINT_BY_PROTOCOL = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_PROMETHEUS = "prometheus"
_DEFAULT_INTERVAL_MS = 60_000.0
_DEFAULT_TIMEOUT_MS = 30_000.0


def metric_exporters_from_environment(environ: Mapping[str, str]) -> list[MetricExporter]:
    """One exporter for each that is named; those that cannot be made are logged and left out."""
    exporters: list[MetricExporter] = []
    for name in _exporter_names(environ):
        if name in ("none", _PROMETHEUS):
            continue
        try:
            exporter = _make_exporter(name, environ)
        except ImportError as error:
            _logger.warning(
                "otel-torchprof: metrics are not sent by %s: %s is not installed "
                "(pip install 'otel-torchprof[otlp]')",
                name,
                error.name,
            )
        except Exception as error:
            _logger.warning(
                "otel-torchprof: metrics are not sent by %s: %s: %s", name, type(error).__name__, error
            )
        else:
            if exporter is not None:
                exporters.append(exporter)
    return exporters


def names_exporters(environ: Mapping[str, str]) -> bool:
    """Whether metrics are to be sent."""
    return any(name not in ("none", _PROMETHEUS) for name in _exporter_names(environ))


def names_prometheus(environ: Mapping[str, str]) -> bool:
    """Whether metrics are to be scraped."""
    return _PROMETHEUS in _exporter_names(environ)


def is_sdk_disabled(environ: Mapping[str, str]) -> bool:
    """Whether `OTEL_SDK_DISABLED` switches OpenTelemetry off."""
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def read_export_interval_s(environ: Mapping[str, str]) -> float:
    """Seconds between two exports."""
    return _milliseconds(environ, "OTEL_METRIC_EXPORT_INTERVAL", _DEFAULT_INTERVAL_MS) / 1e3


def read_export_timeout_s(environ: Mapping[str, str]) -> float:
    """Seconds that one export may take."""
    return _milliseconds(environ, "OTEL_METRIC_EXPORT_TIMEOUT", _DEFAULT_TIMEOUT_MS) / 1e3


def _exporter_names(environ: Mapping[str, str]) -> list[str]:
    names = [name.strip() for name in environ.get("OTEL_METRICS_EXPORTER", "").split(",")]
    return list(dict.fromkeys(name for name in names if name)) or ["otlp"]


def _make_exporter(name: str, environ: Mapping[str, str]) -> MetricExporter | None:
    entry_name = _otlp_entry_point(environ) if name == "otlp" else name
    if entry_name is None:
        return None
    found = next(iter(entry_points(group=_ENTRY_POINT_GROUP, name=entry_name)), None)
    if found is None:
        if name == "otlp":
            raise ModuleNotFoundError(name="opentelemetry-exporter-otlp")
        known = ", ".join(sorted({entry.name for entry in entry_points(group=_ENTRY_POINT_GROUP)} | {"none"}))
        _logger.warning(
            "otel-torchprof: metrics are not sent by %s: no such exporter; there are %s", name, known
        )
        return None
    exporter: MetricExporter = found.load()(**_options(entry_name, environ))
    if not hasattr(exporter, "export"):
        _logger.warning(
            "otel-torchprof: metrics are not sent by %s: %s is no exporter but a reader of the SDK",
            name,
            type(exporter).__name__,
        )
        return None
    return exporter


def _otlp_entry_point(environ: Mapping[str, str]) -> str | None:
    for variable in ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = environ.get(variable, "").strip().lower()
        if protocol:
            break
    else:
        protocol = "grpc"
    if protocol not in _ENTRY_POINT_BY_PROTOCOL:
        supported = " or ".join(_ENTRY_POINT_BY_PROTOCOL)
        _logger.warning(
            "otel-torchprof: metrics are not sent: the OTLP protocol can be %s, not %s", supported, protocol
        )
    return _ENTRY_POINT_BY_PROTOCOL.get(protocol)


def _options(entry_name: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """The SDK's gRPC exporter refuses the word `none` for its compression, which the specification has."""
    if entry_name != "otlp_proto_grpc":
        return {}
    for variable in ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "OTEL_EXPORTER_OTLP_COMPRESSION"):
        compression = environ.get(variable, "").strip().lower()
        if compression == "none":
            from grpc import Compression

            return {"compression": Compression.NoCompression}
        if compression:
            break
    return {}


def _milliseconds(environ: Mapping[str, str], variable: str, default: float) -> float:
    text = environ.get(variable, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        _logger.warning(
            "otel-torchprof: %s is not a number of milliseconds above 0: using %g", variable, default
        )
        return default
    return value
