"""Whether exporters that the environment names are there: if one is not, nothing is instrumented at all.

The names are looked up as the SDK's configuration does, without it: it may not be installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata

from otel_torchprof.doctor.check import Check
from otel_torchprof.environment_variables import OTEL_PYTHON_TORCHPROF_PROMETHEUS_PORT

_OTLP = "otlp"
_OTLP_OF_PROTOCOL = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_GENERAL_PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
_PROMETHEUS = "prometheus"
_NOTHING_STARTS = "opentelemetry-instrument then starts nothing at all"


@dataclass(frozen=True)
class _Signal:
    """What is exported, as its check, its variables and its exporters have it."""

    name: str
    plural: str

    @property
    def check_name(self) -> str:
        return f"{self.name} exporters"

    @property
    def variable(self) -> str:
        return f"OTEL_{self.plural.upper()}_EXPORTER"

    @property
    def protocol_variable(self) -> str:
        return f"OTEL_EXPORTER_OTLP_{self.plural.upper()}_PROTOCOL"

    def installed(self) -> set[str]:
        return set(metadata.entry_points(group=f"opentelemetry_{self.plural}_exporter").names)


_SPANS = _Signal("span", "traces")


def otlp_protocol(environ: Mapping[str, str]) -> str | None:
    """How OTLP is spoken for spans: "grpc" or "http/protobuf"; None where spans are not sent by it."""
    if check_span_exporters(environ).state != "ok":
        return None
    for name in _chosen(_SPANS, environ):
        if name == _OTLP:
            return _protocol(_SPANS, environ)[1]
        for protocol, component in _OTLP_OF_PROTOCOL.items():
            if name == component:
                return protocol
    return None


def check_span_exporters(environ: Mapping[str, str]) -> Check:
    return _check(_SPANS, environ, "unset it to send spans")


def check_metric_exporters(environ: Mapping[str, str]) -> Check:
    return _check(_Signal("metric", "metrics"), environ, "unset it to send metrics")


def check_log_exporters(environ: Mapping[str, str]) -> Check:
    return _check(_Signal("log", "logs"), environ, "")  # none of ours


def _check(signal: _Signal, environ: Mapping[str, str], way_on: str) -> Check:
    setting = environ.get(signal.variable)
    if setting is None and not metadata.entry_points(group="opentelemetry_distro"):
        return Check(signal.check_name, "off", "no opentelemetry-distro, which would choose otlp")
    # As the SDK reads it: "none" beside others is a name that no exporter has.
    if setting is not None and (not setting or setting.strip().lower() == "none"):
        return Check(signal.check_name, "off", f"turned off by {signal.variable}", way_on)
    chosen = _chosen(signal, environ)
    for fault in _faults(signal, chosen, environ):
        return fault
    return Check(signal.check_name, "ok", "otlp, the default" if setting is None else ", ".join(chosen))


def _chosen(signal: _Signal, environ: Mapping[str, str]) -> list[str]:
    return [name.strip() for name in environ.get(signal.variable, _OTLP).split(",")]


def _faults(signal: _Signal, chosen: list[str], environ: Mapping[str, str]) -> Iterator[Check]:
    installed = signal.installed()
    for name in chosen:
        component = name
        if name == _OTLP:
            variable, protocol = _protocol(signal, environ)
            if protocol not in _OTLP_OF_PROTOCOL:
                yield Check(
                    signal.check_name,
                    "missing",
                    f"{variable}={protocol!r} is not supported; {_NOTHING_STARTS}",
                    f"set it to one of {', '.join(_OTLP_OF_PROTOCOL)}",
                )
                continue
            component = _OTLP_OF_PROTOCOL[protocol]
        if component in installed:
            continue
        what = f"{name} as {component}" if component != name else name or "an empty name"
        yield Check(
            signal.check_name,
            "missing",
            f"{signal.variable} names {what}, which is not installed; {_NOTHING_STARTS}",
            _way_out(signal, name, chosen, installed),
        )


def _protocol(signal: _Signal, environ: Mapping[str, str]) -> tuple[str, str]:
    """The variable that says how otlp is spoken, and what it says: grpc unless anything is said."""
    for variable in (signal.protocol_variable, _GENERAL_PROTOCOL):
        if environ.get(variable):
            return variable, environ[variable].strip()
    return _GENERAL_PROTOCOL, "grpc"


def _way_out(signal: _Signal, name: str, chosen: list[str], installed: set[str]) -> str:
    if name == _OTLP:
        return "pip install 'otel-torchprof[otlp]'"
    if name == _PROMETHEUS and signal.plural == "metrics":
        others = ",".join(other for other in chosen if other in installed) or "none"
        return (
            f"set {OTEL_PYTHON_TORCHPROF_PROMETHEUS_PORT} (9464 is usual) and {signal.variable}={others}, or "
            "pip install opentelemetry-exporter-prometheus"
        )
    alone = " (alone)" if len(chosen) > 1 else ""
    return f"use one of {', '.join(sorted(installed))}, or none{alone}"


EXPORTER_CHECKS: tuple[Callable[[Mapping[str, str]], Check], ...] = (
    check_span_exporters,
    check_metric_exporters,
    check_log_exporters,
)
