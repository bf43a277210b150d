"""Which destinations `OTEL_TRACES_EXPORTER` asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.destinations import Destination, ExporterDestination, RequestDestination
from otel_torchprof.telemetry.otlp_config import Protocol, read_otlp_config, read_otlp_protocol
from otel_torchprof.telemetry.reason_log import ReasonLog

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter

    from otel_torchprof.telemetry.send_result import RequestSender

_logger = logging.getLogger(__name__)

_ENTRY_POINT_GROUP = "opentelemetry_traces_exporter"
_PROTOCOLS: Mapping[str, Protocol] = {"grpc": "grpc", "http/protobuf": "http/protobuf"}
_PROTOCOL_BY_EXPORTER: Mapping[str, Protocol] = {
    "otlp_proto_grpc": "grpc",
    "otlp_proto_http": "http/protobuf",
}
# What the SDK takes where nothing is set.
_DEFAULT_PROTOCOL: Protocol = "grpc"


def destinations_from_environment(
    environ: Mapping[str, str], resource: Callable[[], Resource], counters: ExportCounters
) -> list[Destination]:
    """One destination for each exporter named; those that cannot be made are logged and left out.

    None at all where `OTEL_SDK_DISABLED` switches OpenTelemetry off.
    `resource` is asked for at the first export, not here.
    """
    destinations: list[Destination] = []
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return destinations
    for name in _exporter_names(environ):
        try:
            destination = _destination(name, environ, resource, counters)
        except ImportError as error:
            _logger.warning(
                "otel-torchprof: spans are not sent by %s: %s is not installed "
                "(pip install 'otel-torchprof[otlp]')",
                name,
                error.name,
            )
        except Exception as error:
            _logger.warning(
                "otel-torchprof: spans are not sent by %s: %s: %s", name, type(error).__name__, error
            )
        else:
            if destination is not None:
                destinations.append(destination)
    return destinations


def destination_for(
    exporter: SpanExporter, resource: Callable[[], Resource], counters: ExportCounters
) -> Destination:
    """The destination for an exporter given by hand."""
    from otel_torchprof.telemetry.otlp_file import OtlpFileSpanExporter

    if isinstance(exporter, OtlpFileSpanExporter):
        return RequestDestination(exporter.sender, counters)
    return ExporterDestination(exporter, resource, counters)


def otlp_sender(
    environ: Mapping[str, str], protocol: Protocol, log: ReasonLog | None = None
) -> RequestSender:
    """The sender for `protocol`, configured by the environment. ImportError where parts are missing.

    What goes wrong is logged to `log`, by default under the package's name.
    """
    config = read_otlp_config(environ, protocol)
    if protocol == "grpc":
        from otel_torchprof.telemetry.otlp_grpc import OtlpGrpcSender

        return OtlpGrpcSender(config, log=log)
    from otel_torchprof.telemetry.otlp_http import OtlpHttpSender

    return OtlpHttpSender(config, log=log)


def _exporter_names(environ: Mapping[str, str]) -> list[str]:
    names = [name.strip() for name in environ.get("OTEL_TRACES_EXPORTER", "").split(",")]
    return list(dict.fromkeys(name for name in names if name)) or ["otlp"]


def _destination(
    name: str, environ: Mapping[str, str], resource: Callable[[], Resource], counters: ExportCounters
) -> Destination | None:
    if name == "none":
        return None
    if name == "otlp" or name in _PROTOCOL_BY_EXPORTER:
        protocol = _PROTOCOL_BY_EXPORTER.get(name) or _protocol(environ)
        return None if protocol is None else RequestDestination(otlp_sender(environ, protocol), counters)
    found = next(iter(entry_points(group=_ENTRY_POINT_GROUP, name=name)), None)
    if found is None:
        known = ", ".join(sorted({entry.name for entry in entry_points(group=_ENTRY_POINT_GROUP)} | {"none"}))
        _logger.warning(
            "otel-torchprof: spans are not sent by %s: no such exporter; there are %s", name, known
        )
        return None
    return destination_for(found.load()(), resource, counters)


def _protocol(environ: Mapping[str, str]) -> Protocol | None:
    asked_for = read_otlp_protocol(environ)
    if asked_for is None:
        return _DEFAULT_PROTOCOL
    protocol = _PROTOCOLS.get(asked_for.lower())
    if protocol is None:
        supported = " or ".join(_PROTOCOLS)
        _logger.warning(
            "otel-torchprof: spans are not sent: the OTLP protocol can be %s, not %s", supported, asked_for
        )
    return protocol
