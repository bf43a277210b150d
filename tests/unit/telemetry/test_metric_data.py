"""Families as the SDK's data: every exporter gets what it prefers, and OTLP encodes all of it."""

from __future__ import annotations

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter
from opentelemetry.sdk.resources import Resource

from otel_torchprof.metrics.families import ExponentialBuckets
from otel_torchprof.semconv_metrics import OP_CALLS, STEP_BOUNDS_S, STEP_DURATION, STEP_NUMBER
from otel_torchprof.telemetry.metric_data import Preferences, preferences_of, to_metrics_data
from tests.support.metric_families import EXEMPLAR, START_NS, op_calls, step_durations, step_number

COLLECTED_NS = 9_000
EXPONENTIAL = ExponentialBuckets(scale=0, zero_count=0, offset=-7, counts=[2])


def encoded(preferences: Preferences) -> dict[str, object]:
    families = [
        op_calls(5),
        step_number(3),
        step_durations({8: 2}, exemplars=[EXEMPLAR], exponential=EXPONENTIAL),
    ]
    data = to_metrics_data(families, Resource({"service.name": "x"}), COLLECTED_NS, preferences)
    ((scope,),) = [resource.scope_metrics for resource in encode_metrics(data).resource_metrics]
    return {metric.name: metric for metric in scope.metrics}


@pytest.mark.parametrize("delta", [False, True])
def test_counters_and_histograms_have_the_preferred_temporality(delta: bool) -> None:
    metrics = encoded(Preferences(delta_counters=delta, delta_histograms=delta))
    expected = (
        AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
        if delta
        else AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
    )
    calls, durations = metrics[OP_CALLS], metrics[STEP_DURATION]
    assert calls.sum.aggregation_temporality == expected  # type: ignore[attr-defined]
    assert calls.sum.is_monotonic  # type: ignore[attr-defined]
    assert durations.histogram.aggregation_temporality == expected  # type: ignore[attr-defined]


def test_points_carry_values_times_units_and_exemplars() -> None:
    metrics = encoded(Preferences())
    calls, number, durations = (metrics[name] for name in (OP_CALLS, STEP_NUMBER, STEP_DURATION))
    (point,) = calls.sum.data_points  # type: ignore[attr-defined]
    assert (point.as_int, point.start_time_unix_nano, point.time_unix_nano) == (5, START_NS, COLLECTED_NS)
    assert {item.key: item.value.string_value for item in point.attributes} == {
        "torch.op.name": "aten::add",
        "torch.phase": "forward",
    }
    assert (calls.unit, durations.unit) == ("{call}", "s")  # type: ignore[attr-defined]
    assert [item.as_int for item in number.gauge.data_points] == [3]  # type: ignore[attr-defined]
    (point,) = durations.histogram.data_points  # type: ignore[attr-defined]
    assert list(point.explicit_bounds) == list(STEP_BOUNDS_S)
    assert (point.count, point.bucket_counts[8], point.min, point.max) == (2, 2, 0.256, 0.256)
    (exemplar,) = point.exemplars
    assert (exemplar.trace_id, exemplar.span_id) == (EXEMPLAR.trace_id, EXEMPLAR.span_id)
    assert (exemplar.as_double, exemplar.time_unix_nano) == (EXEMPLAR.value, EXEMPLAR.unix_ns)


def test_exponential_histograms_where_they_are_preferred() -> None:
    (point,) = encoded(Preferences(exponential_histograms=True))[
        STEP_DURATION
    ].exponential_histogram.data_points  # type: ignore[attr-defined]
    assert (point.scale, point.positive.offset, list(point.positive.bucket_counts)) == (0, -7, [2])
    assert [exemplar.trace_id for exemplar in point.exemplars] == [EXEMPLAR.trace_id]


def test_explicit_ones_where_exponential_ones_were_not_counted() -> None:
    data = to_metrics_data(
        [step_durations({8: 2})], Resource({}), COLLECTED_NS, Preferences(exponential_histograms=True)
    )
    ((scope,),) = [resource.scope_metrics for resource in encode_metrics(data).resource_metrics]
    assert [metric.WhichOneof("data") for metric in scope.metrics] == ["histogram"]


@pytest.mark.parametrize(
    ("preference", "expected"),
    [
        ("", Preferences()),
        ("cumulative", Preferences()),
        ("delta", Preferences(delta_counters=True, delta_histograms=True)),
        ("lowmemory", Preferences(delta_counters=False, delta_histograms=True)),
    ],
)
def test_the_environment_says_what_otlp_prefers(
    preference: str, expected: Preferences, monkeypatch: pytest.MonkeyPatch
) -> None:
    if preference:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", preference)
    exporter = OTLPMetricExporter(endpoint="http://127.0.0.1:1")
    try:
        assert preferences_of(exporter) == expected
    finally:
        exporter.shutdown()


def test_the_environment_asks_for_exponential_histograms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "base2_exponential_bucket_histogram"
    )
    exporter = OTLPMetricExporter(endpoint="http://127.0.0.1:1")
    try:
        assert preferences_of(exporter) == Preferences(exponential_histograms=True)
    finally:
        exporter.shutdown()


def test_an_exporter_without_preferences_gets_cumulative_data() -> None:
    assert preferences_of(ConsoleMetricExporter()) == Preferences()
