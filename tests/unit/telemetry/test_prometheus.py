"""What Prometheus reads: parsed by the library's own parsers, in both formats, equal to the families."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from prometheus_client import CollectorRegistry

from otel_torchprof.metrics.families import Exemplar, MetricFamily, NumberPoint
from otel_torchprof.semconv_metrics import (
    EVENTS_DROPPED,
    METRIC_BY_NAME,
    METRICS,
    OP_TIME,
    REASON,
    STEP_BOUNDS_S,
)
from otel_torchprof.telemetry.prometheus import TorchprofCollector
from otel_torchprof.telemetry.prometheus_names import prometheus_family_name
from tests.support.metric_families import EXEMPLAR, START_NS, op_calls, step_durations, step_number
from tests.support.prometheus_text import parse, write

ODD = 'a"b\\c\nd\x01é✓'


def scraped(families: list[MetricFamily], *, openmetrics: bool = True) -> dict[str, Any]:
    registry = CollectorRegistry()
    resource = Resource({"service.name": "train.py", "torch.rank": 3, "odd": "\udcff"})
    registry.register(TorchprofCollector(lambda: families, lambda: resource))
    return parse(write(registry, openmetrics=openmetrics), openmetrics=openmetrics)


@pytest.mark.parametrize("openmetrics", [False, True])
def test_values_arrive_unchanged_in_both_formats(openmetrics: bool) -> None:
    time = MetricFamily(
        METRIC_BY_NAME[OP_TIME], [NumberPoint({"torch.op.name": ODD, "torch.phase": "other"}, 0.1, START_NS)]
    )
    families = [op_calls(2**53), time, step_number(7), step_durations({3: 2, 20: 1})]
    metrics = scraped(families, openmetrics=openmetrics)
    (calls,) = metrics["torch_op_calls"].samples
    assert (calls.name, calls.value) == ("torch_op_calls_total", 2**53)
    assert calls.labels == {"torch_op_name": "aten::add", "torch_phase": "forward"}
    (seconds,) = metrics["torch_op_time_seconds"].samples
    assert (seconds.name, seconds.value) == ("torch_op_time_seconds_total", 0.1)
    assert seconds.labels["torch_op_name"] == ODD
    assert [(s.name, s.value, s.labels) for s in metrics["torch_step_number"].samples] == [
        ("torch_step_number", 7, {})
    ]
    durations = metrics["torch_step_duration_seconds"]
    assert durations.type == "histogram"
    by_bound = {float(s.labels["le"]): s.value for s in durations.samples if s.name.endswith("_bucket")}
    assert list(by_bound) == [*STEP_BOUNDS_S, float("inf")]
    assert [by_bound[bound] for bound in (0.004, 0.008, STEP_BOUNDS_S[-1], float("inf"))] == [0, 2, 2, 3]
    rest = {s.name.rpartition("_")[2]: s.value for s in durations.samples if not s.name.endswith("_bucket")}
    assert rest["count"] == 3
    assert rest["sum"] == pytest.approx(2 * 0.008 + 2 * STEP_BOUNDS_S[-1])


def test_units_and_exemplars_are_in_openmetrics() -> None:
    newest = Exemplar(0.2, EXEMPLAR.unix_ns + 1, bytes(range(16, 32)), bytes(range(16, 24)))
    metrics = scraped([step_durations({8: 3}, exemplars=[EXEMPLAR, newest])])
    durations = metrics["torch_step_duration_seconds"]
    assert durations.unit == "seconds"
    exemplars = {s.labels["le"]: s.exemplar for s in durations.samples if s.exemplar}
    assert list(exemplars) == ["0.256"]  # the only bucket that holds their values
    assert exemplars["0.256"].labels == {
        "trace_id": newest.trace_id.hex(),
        "span_id": newest.span_id.hex(),
    }
    assert (exemplars["0.256"].value, float(exemplars["0.256"].timestamp)) == (0.2, newest.unix_ns / 1e9)


def test_the_resource_is_told_once() -> None:
    (sample,) = scraped([step_number(1)])["target"].samples
    assert (sample.name, sample.value) == ("target_info", 1)
    assert sample.labels == {"service_name": "train.py", "torch_rank": "3", "odd": "?"}


def test_without_numbers_there_is_nothing() -> None:
    assert scraped([]) == {}
    assert scraped([MetricFamily(METRIC_BY_NAME[EVENTS_DROPPED])]) == {}


def test_every_metric_can_be_written() -> None:
    families = [
        MetricFamily(metric, [NumberPoint({REASON: "x"}, 1, START_NS)])
        for metric in METRICS
        if metric.kind != "histogram"
    ]
    assert set(scraped(families)) == {prometheus_family_name(family.metric) for family in families} | {
        "target"
    }


def test_a_registry_refuses_names_that_are_taken() -> None:
    registry = CollectorRegistry(auto_describe=True)
    registry.register(TorchprofCollector(lambda: []))
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        registry.register(TorchprofCollector(lambda: []))


def test_created_series_are_not_made() -> None:
    registry = CollectorRegistry()
    registry.register(TorchprofCollector(lambda: [op_calls(1), step_durations({1: 1})]))
    assert "_created" not in write(registry, openmetrics=True)
