"""Both text formats of Prometheus, written and parsed by `prometheus_client`; its functions have no types."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics import exposition, parser
from prometheus_client.parser import text_string_to_metric_families

_write_openmetrics: Any = exposition.generate_latest
_parse_openmetrics: Any = parser.text_string_to_metric_families
_parse_classic: Any = text_string_to_metric_families


def write(registry: CollectorRegistry, *, openmetrics: bool) -> str:
    """What a scraper gets of `registry`."""
    text = _write_openmetrics(registry) if openmetrics else generate_latest(registry)
    return bytes(text).decode()


def parse(text: str, *, openmetrics: bool) -> dict[str, Any]:
    """The metrics by the name of their family."""
    parsed = _parse_openmetrics(text) if openmetrics else _parse_classic(text)
    return {metric.name: metric for metric in parsed}
