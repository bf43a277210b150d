"""The standard `OTEL_EXPORTER_OTLP_*` variables, read as the OTLP exporter specification has them.

The variable of the signal (`OTEL_EXPORTER_OTLP_TRACES_*`) wins over the generic one, each for itself; an
empty value counts as unset; a bad value is logged by the name of its variable (never its content: headers
hold tokens) and the default is used.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

_logger = logging.getLogger(__name__)

Protocol: TypeAlias = Literal["grpc", "http/protobuf"]
Compression: TypeAlias = Literal["none", "gzip"]

DEFAULT_TIMEOUT_S = 10.0
_TRACES_PATH = "v1/traces"
_DEFAULT_ENDPOINT: Mapping[Protocol, str] = {
    "grpc": "http://localhost:4317",
    "http/protobuf": "http://localhost:4318",
}
_TOKEN = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_CREDENTIALS = re.compile(r"//[^/@\s]*@")
_UNPRINTABLE = re.compile(r"[^\x20-\x7e]")
_MAX_QUOTED_CHARS = 200


@dataclass(frozen=True)
class OtlpConfig:
    """Where and how spans are sent. `endpoint` is a URL for HTTP and a channel target for gRPC."""

    protocol: Protocol
    endpoint: str
    # Not in the repr: headers carry credentials.
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    compression: Compression = "none"
    insecure: bool = True
    certificate_file: Path | None = None
    client_key_file: Path | None = None
    client_certificate_file: Path | None = None

    def redact(self, text: str) -> str:
        """`text` from outside, fit for a log: one printable line, short, without our header values."""
        return redact(text, [value for _, value in self.headers])

    @property
    def display_endpoint(self) -> str:
        """The endpoint without user name and password, for log lines."""
        return _CREDENTIALS.sub("//", self.endpoint)


def redact(text: str, secrets: Iterable[str], max_chars: int = _MAX_QUOTED_CHARS) -> str:
    """`text` from outside, fit for a log: one printable line, short, without `secrets` and users of URLs."""
    for value in secrets:
        # "Bearer abc": a server may well quote the token alone.
        for secret in (value, value.rpartition(" ")[2]):
            if len(secret) >= 4:
                text = text.replace(secret, "***")
    text = _UNPRINTABLE.sub(" ", _CREDENTIALS.sub("//", text))
    return text if len(text) <= max_chars else text[: max_chars - 3] + "..."


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """The values of the headers that the OTLP exporters of all signals are told to send."""
    return [
        unquote(item.partition("=")[2]).strip()
        for name, text in environ.items()
        if name.startswith("OTEL_EXPORTER_OTLP_") and name.endswith("HEADERS")
        for item in text.split(",")
    ]


def read_otlp_config(environ: Mapping[str, str], protocol: Protocol) -> OtlpConfig:
    """The configuration for sending traces over `protocol`. Bad values are logged, not raised."""
    variables = _TraceVariables(environ)
    endpoint, insecure = _grpc_target(variables) if protocol == "grpc" else (_http_url(variables), False)
    return OtlpConfig(
        protocol=protocol,
        endpoint=endpoint,
        headers=_headers(variables, protocol),
        timeout_s=_timeout_s(variables),
        compression=_compression(variables),
        insecure=insecure,
        certificate_file=variables.path("CERTIFICATE"),
        client_key_file=variables.path("CLIENT_KEY"),
        client_certificate_file=variables.path("CLIENT_CERTIFICATE"),
    )


def read_otlp_protocol(environ: Mapping[str, str]) -> str | None:
    """The protocol asked for, as it was written; None where none is."""
    return _TraceVariables(environ).get("PROTOCOL")[1]


class _TraceVariables:
    """Looks a setting up by its last part: of the signal first, then the generic one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def get(self, setting: str) -> tuple[str, str | None]:
        """The variable that counts, by name, and its value; None where neither is set."""
        generic = f"OTEL_EXPORTER_OTLP_{setting}"
        for name in (f"OTEL_EXPORTER_OTLP_TRACES_{setting}", generic):
            value = self._environ.get(name, "").strip()
            if value:
                return name, value
        return generic, None

    def path(self, setting: str) -> Path | None:
        _, value = self.get(setting)
        return Path(value) if value else None


def _http_url(variables: _TraceVariables) -> str:
    name, value = variables.get("ENDPOINT")
    url = _split_url(value) if value else None
    if value and (url is None or url.scheme not in ("http", "https") or not url.hostname):
        _logger.warning("%s is not an http:// or https:// URL: using the default endpoint", name)
        url = None
    if url is None:
        url = urlsplit(_DEFAULT_ENDPOINT["http/protobuf"])
        name = "OTEL_EXPORTER_OTLP_ENDPOINT"
    # Only the generic endpoint is a base; the one of the signal is the whole address.
    path = url.path or "/" if "_TRACES_" in name else f"{url.path.rstrip('/')}/{_TRACES_PATH}"
    return urlunsplit((url.scheme, url.netloc, path, url.query, ""))


def _grpc_target(variables: _TraceVariables) -> tuple[str, bool]:
    """The channel target, and whether it is plain text: a scheme decides, INSECURE is for the rest."""
    name, value = variables.get("ENDPOINT")
    endpoint = value or _DEFAULT_ENDPOINT["grpc"]
    insecure_name, insecure_value = variables.get("INSECURE")
    insecure = (insecure_value or "").lower() == "true"
    if insecure_value is not None and insecure_value.lower() not in ("true", "false"):
        _logger.warning("%s is neither true nor false: using false", insecure_name)
    if endpoint.startswith(("http://", "https://")):
        url = _split_url(endpoint)
        if url is None or not url.hostname:
            _logger.warning("%s has no host: using the default endpoint", name)
            return urlsplit(_DEFAULT_ENDPOINT["grpc"]).netloc, True
        return url.netloc.rpartition("@")[2], url.scheme == "http"
    if endpoint.startswith(("unix:", "unix-abstract:")) and insecure_value is None:
        # A socket file is guarded by its permissions; servers on one speak plain text unless told otherwise.
        return endpoint, True
    return endpoint, insecure


def _split_url(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        _ = url.port  # parsed, and checked, on access only
    except ValueError:
        return None
    return url


def _headers(variables: _TraceVariables, protocol: Protocol) -> tuple[tuple[str, str], ...]:
    variable, text = variables.get("HEADERS")
    headers: dict[str, str] = {}
    for number, item in enumerate((text or "").split(","), start=1):
        if not item.strip():
            continue
        name, equals, value = (part.strip() for part in item.partition("="))
        name, value = unquote(name).strip().lower(), unquote(value).strip()
        if not equals or not _TOKEN.fullmatch(name):
            _logger.warning("%s: entry %d is not name=value: left out", variable, number)
        elif any(ord(char) < 0x20 or char == "\x7f" for char in value):
            _logger.warning("%s: the value of %s holds control characters: left out", variable, name)
        elif protocol == "grpc" and not (value.isascii() and name.isascii()):
            _logger.warning("%s: gRPC takes ASCII values only, %s is not: left out", variable, name)
        else:
            headers[name] = value
    return tuple(headers.items())


def _timeout_s(variables: _TraceVariables) -> float:
    name, value = variables.get("TIMEOUT")
    if value is None:
        return DEFAULT_TIMEOUT_S
    try:
        timeout_s = float(value)
    except ValueError:
        timeout_s = math.nan
    if not 0 < timeout_s < math.inf:
        _logger.warning("%s is not a number of seconds above 0: using %g", name, DEFAULT_TIMEOUT_S)
        return DEFAULT_TIMEOUT_S
    return timeout_s


def _compression(variables: _TraceVariables) -> Compression:
    name, value = variables.get("COMPRESSION")
    if value is None or value.lower() == "none":
        return "none"
    if value.lower() == "gzip":
        return "gzip"
    _logger.warning("%s is neither gzip nor none: sending without compression", name)
    return "none"
