"""Whether anything listens where spans would be sent: the likeliest reason why none arrive."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from otel_torchprof.doctor.check import Check
from otel_torchprof.doctor.exporters import otlp_protocol

_NAME = "Collector"
_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_DEFAULT_PORTS = {"grpc": 4317, "http/protobuf": 4318}
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")
_TIMEOUT_S = 2.0


def check_collector(environ: Mapping[str, str]) -> Check:
    """Connects to the endpoint of spans, and sends nothing."""
    protocol = otlp_protocol(environ)
    if protocol is None:
        return Check(_NAME, "off", "not tried: spans are not sent by OTLP")
    variable = next((name for name in _VARIABLES if environ.get(name)), None)
    default = f"http://localhost:{_DEFAULT_PORTS[protocol]}"
    try:
        host, port = _address(environ[variable] if variable else default)
    except ValueError:
        return Check(_NAME, "missing", f"{variable} is no address", f"set it to one such as {default}")
    place = f"{host}:{port}, which {variable} names" if variable else f"{host}:{port}, the default"
    if any(environ.get(name) or environ.get(name.upper()) for name in _PROXIES):
        return Check(_NAME, "ok", f"{place}; not tried: it may be reached through a proxy only")
    try:
        socket.create_connection((host, port), timeout=_TIMEOUT_S).close()
    except OSError as error:
        return Check(
            _NAME,
            "missing" if variable else "off",
            f"nothing to be reached at {place}: {error.strerror or error}",
            f"start one there, or set {_VARIABLES[1]}; OTEL_TRACES_EXPORTER=otlp_file writes a file instead",
        )
    return Check(_NAME, "ok", f"something listens at {place}")


def _address(endpoint: str) -> tuple[str, int]:
    """Host and port. Names and passwords in an address are not for a report.

    Raises:
        ValueError: there is none in it.
    """
    # gRPC takes an address without a scheme.
    parts = urlsplit(endpoint if "://" in endpoint else f"http://{endpoint}")
    if not parts.hostname:
        raise ValueError("no host")
    return parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)


COLLECTOR_CHECKS: tuple[Callable[[Mapping[str, str]], Check], ...] = (check_collector,)
