"""Names of metrics in Prometheus: units become words, counters end in `_total`, annotations vanish."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from otel_torchprof.semconv_metrics import (
    CPU_COUNT,
    DEVICE_MEMORY_LIMIT,
    DEVICE_MEMORY_USAGE,
    EXPORT_SIZE,
    METRIC_BY_NAME,
    METRICS,
    OP_CALLS,
    OP_TIME,
    OVERHEAD,
    RECORDER_STATE,
    STEP_DURATION,
    STEP_LAST_TIMESTAMP,
    STEP_NUMBER,
    Metric,
)
from otel_torchprof.telemetry.prometheus_names import (
    prometheus_family_name,
    prometheus_label,
    prometheus_name,
    prometheus_sample_names,
)

VALID_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
VALID_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def a_metric(name: str, kind: str, unit: str) -> Metric:
    return Metric(name, kind, unit, (), "", "", "1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "prometheus"),
    [
        (OP_TIME, "torch_op_time_seconds_total"),
        (OP_CALLS, "torch_op_calls_total"),
        (CPU_COUNT, "torch_cpu_count_total"),
        (EXPORT_SIZE, "torchprof_export_size_bytes_total"),
        (DEVICE_MEMORY_USAGE, "torch_device_memory_usage_bytes"),
        (DEVICE_MEMORY_LIMIT, "torch_device_memory_limit_bytes"),
        (STEP_DURATION, "torch_step_duration_seconds"),
        (STEP_LAST_TIMESTAMP, "torch_step_last_timestamp_seconds"),
        (STEP_NUMBER, "torch_step_number"),
        (OVERHEAD, "torchprof_overhead_ratio"),
        (RECORDER_STATE, "torchprof_state"),
    ],
)
def test_a_metric_has_the_name_that_a_collector_gives_it(name: str, prometheus: str) -> None:
    assert prometheus_name(METRIC_BY_NAME[name]) == prometheus


@pytest.mark.parametrize(
    ("kind", "unit", "prometheus"),
    [
        ("counter", "1", "a_b_total"),
        ("gauge", "1", "a_b_ratio"),
        ("histogram", "1", "a_b"),
        ("gauge", "{thing}", "a_b"),
        ("histogram", "By", "a_b_bytes"),
    ],
)
def test_the_unit_is_a_word_of_the_name(kind: str, unit: str, prometheus: str) -> None:
    assert prometheus_name(a_metric("a.b", kind, unit)) == prometheus


def test_a_word_that_is_there_is_not_said_twice() -> None:
    assert prometheus_name(a_metric("a.bytes.read", "counter", "By")) == "a_bytes_read_total"


def test_a_unit_without_a_word_is_an_error_that_says_so() -> None:
    with pytest.raises(ValueError, match=r"a\.b: no Prometheus word for the unit 'Cel'"):
        prometheus_name(a_metric("a.b", "gauge", "Cel"))


def test_a_family_lacks_the_total_of_its_samples() -> None:
    assert prometheus_family_name(METRIC_BY_NAME[OP_TIME]) == "torch_op_time_seconds"
    assert prometheus_sample_names(METRIC_BY_NAME[OP_TIME]) == ("torch_op_time_seconds_total",)


def test_a_histogram_makes_three_kinds_of_series() -> None:
    assert prometheus_sample_names(METRIC_BY_NAME[STEP_DURATION]) == (
        "torch_step_duration_seconds_bucket",
        "torch_step_duration_seconds_sum",
        "torch_step_duration_seconds_count",
    )


def test_every_metric_has_valid_names_of_its_own() -> None:
    names = [name for metric in METRICS for name in prometheus_sample_names(metric)]
    assert [name for name in names if not VALID_METRIC.fullmatch(name)] == []
    assert len(set(names)) == len(names)


def test_every_attribute_has_a_valid_label() -> None:
    labels = {prometheus_label(attribute) for metric in METRICS for attribute in metric.attributes}
    assert [label for label in labels if not VALID_LABEL.fullmatch(label)] == []
    assert prometheus_label("torch.op.name") == "torch_op_name"
    assert prometheus_label("8bit.mode") == "key_8bit_mode"


def test_only_the_unit_decides() -> None:
    time = METRIC_BY_NAME[OP_TIME]
    assert prometheus_name(replace(time, unit="{call}")) == "torch_op_time_total"
