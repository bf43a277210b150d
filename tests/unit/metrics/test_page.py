"""docs/metrics.md: up to date, and its queries are sound and use names that exist."""

from __future__ import annotations

import re
from pathlib import Path

from otel_torchprof.metrics.page import QUERIES, render_page
from otel_torchprof.semconv_metrics import METRIC_BY_NAME, METRICS, Metric
from otel_torchprof.telemetry.prometheus_names import prometheus_label, prometheus_sample_names
from tests.support.query_parsers import parse

ROOT = Path(__file__).parents[3]


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text("utf-8")
    assert page == render_page(), "run: python -m otel_torchprof.metrics.page > docs/metrics.md"


def test_each_metric_is_described_and_answers_its_question() -> None:
    assert set(QUERIES) == set(METRIC_BY_NAME)
    assert len(METRIC_BY_NAME) == len(METRICS)
    page = render_page()
    for metric in METRICS:
        assert f"| `{metric.name}` | {metric.kind}, {metric.unit} |" in page
        assert f"| {metric.question} | `{QUERIES[metric.name]}` |" in page


def labels_of(metric: Metric) -> set[str]:
    return {"job", "instance", "le", *map(prometheus_label, metric.attributes)}


def test_queries_use_the_names_that_prometheus_has() -> None:
    metric_by_sample = {sample: metric for metric in METRICS for sample in prometheus_sample_names(metric)}
    for name, query in QUERIES.items():
        used = set(re.findall(r"torch\w*(?=[\[{ )]|$)", query)) & set(metric_by_sample)
        assert name in {metric_by_sample[sample].name for sample in used}


def test_queries_parse() -> None:
    samples = {sample: metric for metric in METRICS for sample in prometheus_sample_names(metric)}
    for query in parse("promql", list(QUERIES.values())):
        assert query.errors == ()
        metrics = [samples[selector.name] for selector in query.selectors]
        known = set.union(*map(labels_of, metrics))
        assert {label for selector in query.selectors for label in selector.labels} <= known
        assert set(query.grouping) <= known
