"""Metrics of a program under `opentelemetry-instrument` arrive by OTLP, equal to a recording of the run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Metric

from otel_torchprof import Recording
from otel_torchprof.metrics.families import NumberPoint
from otel_torchprof.metrics.from_recording import families_from_recording
from otel_torchprof.semconv_metrics import OP_CALLS, STEP_DURATION
from tests.support.instrumented import run_instrumented
from tests.support.otlp_metrics_sink import OtlpMetricsSink
from tests.support.rotel import RotelCollector

PROGRAM = str(Path(__file__).with_name("programs") / "plain_loop.py")
STEPS = 4
SETTINGS = {
    "SCHEDULE": "active=1000",
    "METRICS_SAMPLING": "full",
    "MAX_OVERHEAD": "1",
    "OTEL_METRIC_EXPORT_INTERVAL": "100",
}
HISTOGRAM_AGGREGATION = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"
DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
CUMULATIVE = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE


def recorded_calls(folder: Path) -> int:
    (path,) = folder.glob("*.tprof")
    (family,) = [f for f in families_from_recording(Recording.open(path)) if f.metric.name == OP_CALLS]
    return sum(int(point.value) for point in family.points if isinstance(point, NumberPoint))


def total_calls(metrics: list[Metric]) -> int:
    """Of all exports where they are differences, of the last where they are not."""
    if metrics[0].sum.aggregation_temporality == CUMULATIVE:
        metrics = metrics[-1:]
    return sum(point.as_int for metric in metrics for point in metric.sum.data_points)


def total_steps(metrics: list[Metric]) -> int:
    if metrics[0].histogram.aggregation_temporality == CUMULATIVE:
        metrics = metrics[-1:]
    return sum(point.count for metric in metrics for point in metric.histogram.data_points)


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("temporality", ["cumulative", "delta"])
def test_counts_arrive_through_a_collector(protocol: str, temporality: str, tmp_path: Path) -> None:
    with OtlpMetricsSink() as sink, RotelCollector(tmp_path, forward_to=sink.endpoint) as collector:
        is_grpc = protocol == "grpc"
        run_instrumented(
            [PROGRAM, "train"],
            tmp_path,
            {
                **SETTINGS,
                "RECORDING_DIR": str(tmp_path),
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
                "OTEL_EXPORTER_OTLP_ENDPOINT": (
                    collector.grpc_endpoint if is_grpc else collector.http_endpoint
                ),
                "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": temporality,
            },
        )
        collector.stop()  # sends what it still holds
        calls, steps = sink.named(OP_CALLS), sink.named(STEP_DURATION)
        resources = sink.resources()
    expected = DELTA if temporality == "delta" else CUMULATIVE
    assert {metric.sum.aggregation_temporality for metric in calls} == {expected}
    assert {metric.histogram.aggregation_temporality for metric in steps} == {expected}
    assert total_calls(calls) == recorded_calls(tmp_path) > 100
    assert total_steps(steps) == STEPS - 1
    assert {resource["service.name"] for resource in resources} == {"plain_loop.py"}
    # The step that was recorded and delivered is named where its duration is counted.
    assert [
        len(exemplar.span_id)
        for metric in steps
        for p in metric.histogram.data_points
        for exemplar in p.exemplars
    ]


def test_exponential_histograms_on_request(tmp_path: Path) -> None:
    with OtlpMetricsSink() as sink:
        run_instrumented(
            [PROGRAM, "train"],
            tmp_path,
            {
                **SETTINGS,
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
                HISTOGRAM_AGGREGATION: "base2_exponential_bucket_histogram",
            },
        )
        (point,) = sink.named(STEP_DURATION)[-1].exponential_histogram.data_points
    assert point.count == sum(point.positive.bucket_counts) == STEPS - 1


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_without_a_collector_one_line_says_so(protocol: str, tmp_path: Path) -> None:
    finished = run_instrumented(
        [PROGRAM, "train"],
        tmp_path,
        {
            "OTEL_METRICS_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
        },
    )
    (line,) = re.findall(r"otel-torchprof: the last metrics were not exported within.*", finished.stderr)
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in line
    assert "Transient error" not in finished.stderr.replace(line, "")  # which holds what the exporter says


def test_a_disabled_sdk_exports_nothing(tmp_path: Path) -> None:
    finished = run_instrumented(
        [PROGRAM, "train"], tmp_path, {"OTEL_METRICS_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}
    )
    assert "torch.op.calls" not in finished.stdout


def test_the_console_gets_the_last_metrics_of_a_short_program(tmp_path: Path) -> None:
    finished = run_instrumented([PROGRAM, "train"], tmp_path, {"OTEL_METRICS_EXPORTER": "console"})
    assert '"name": "torch.op.calls"' in finished.stdout


@pytest.mark.parametrize(("how", "processes"), [("load", 1), ("fork", 2)])
def test_children_that_load_data_send_no_metrics_and_those_that_train_do(
    how: str, processes: int, tmp_path: Path
) -> None:
    with OtlpMetricsSink() as sink:
        run_instrumented(
            [PROGRAM, how],
            tmp_path,
            {
                "MODE": "metrics",
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
            },
        )
        instances = {resource["service.instance.id"] for resource in sink.resources()}
    assert len(instances) == processes
