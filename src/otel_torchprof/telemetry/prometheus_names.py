"""The names that metrics and attributes have in Prometheus, whichever way they get there.

The rules are those by which OpenTelemetry Collectors translate, so that dashboards and alerts work on what is
scraped from a program as on what came by OTLP.
"""

from __future__ import annotations

import re

from otel_torchprof.semconv_metrics import Metric

_NOT_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_]+")
_UNIT_WORDS = {"s": "seconds", "By": "bytes"}


def prometheus_name(metric: Metric) -> str:
    """The name in a query: of counters with `_total`, of histograms without `_bucket`, `_sum` and `_count`.

    Raises:
        ValueError: for a unit that has no word here.
    """
    name = prometheus_family_name(metric)
    return f"{name}_total" if metric.kind == "counter" else name


def prometheus_family_name(metric: Metric) -> str:
    """The name in the `# TYPE` line of OpenMetrics: the unit is in it, `_total` is not.

    Raises:
        ValueError: for a unit that has no word here.
    """
    word = _unit_word(metric)
    words = _NOT_IN_A_NAME.sub("_", metric.name).split("_")
    if word and word not in words:
        words.append(word)
    return "_".join(words)


def prometheus_sample_names(metric: Metric) -> tuple[str, ...]:
    """The names of all time series that the metric makes.

    Raises:
        ValueError: for a unit that has no word here.
    """
    name = prometheus_name(metric)
    if metric.kind == "histogram":
        return (f"{name}_bucket", f"{name}_sum", f"{name}_count")
    return (name,)


def prometheus_label(attribute: str) -> str:
    """The label that carries the attribute: `torch.op.name` is `torch_op_name`."""
    label = _NOT_IN_A_NAME.sub("_", attribute)
    return f"key_{label}" if label[:1].isdigit() else label


def _unit_word(metric: Metric) -> str:
    """What the unit adds to the name: nothing for annotations (`{call}`) and for a 1 that is no gauge's."""
    if metric.unit.startswith("{"):
        return ""
    if metric.unit == "1":
        return "ratio" if metric.kind == "gauge" else ""
    try:
        return _UNIT_WORDS[metric.unit]
    except KeyError:
        raise ValueError(
            f"{metric.name}: no Prometheus word for the unit {metric.unit!r}: add it to _UNIT_WORDS"
        ) from None
