"""What `OTEL_METRICS_EXPORTER` and its companions ask for."""

from __future__ import annotations

import logging

import pytest
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

from otel_torchprof.telemetry.metric_exporters import (
    is_sdk_disabled,
    metric_exporters_from_environment,
    names_prometheus,
    read_export_interval_s,
    read_export_timeout_s,
)

NAMES = "OTEL_METRICS_EXPORTER"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [GrpcExporter]),
        ({NAMES: "otlp"}, [GrpcExporter]),
        ({NAMES: " otlp , otlp,"}, [GrpcExporter]),
        ({NAMES: "otlp", PROTOCOL: "http/protobuf"}, [HttpExporter]),
        (
            {NAMES: "otlp", PROTOCOL: "grpc", "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "HTTP/protobuf"},
            [HttpExporter],
        ),
        ({NAMES: "otlp_proto_http", PROTOCOL: "grpc"}, [HttpExporter]),
        ({NAMES: "console,otlp"}, [ConsoleMetricExporter, GrpcExporter]),
        ({NAMES: "none"}, []),
        ({NAMES: "prometheus"}, []),
        ({NAMES: "otlp", "OTEL_EXPORTER_OTLP_COMPRESSION": "none"}, [GrpcExporter]),
        ({NAMES: "otlp", "OTEL_EXPORTER_OTLP_METRICS_COMPRESSION": "none"}, [GrpcExporter]),
    ],
)
def test_every_exporter_that_is_named_is_made(
    environ: dict[str, str], expected: list[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)  # the exporters of the SDK read it themselves
    exporters = metric_exporters_from_environment(environ)
    for exporter in exporters:
        exporter.shutdown()
    assert [type(exporter) for exporter in exporters] == expected


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {NAMES: "carrier_pigeon"},
            "not sent by carrier_pigeon: no such exporter; there are console, none, otlp",
        ),
        (
            {NAMES: "otlp", PROTOCOL: "http/json"},
            "the OTLP protocol can be grpc or http/protobuf, not http/json",
        ),
    ],
)
def test_what_cannot_be_made_is_said_and_left_out(
    environ: dict[str, str], said: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert metric_exporters_from_environment(environ) == []
    (record,) = caplog.records
    assert said in record.message


def test_a_bad_variable_of_the_sdk_leaves_the_others(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    exporters = metric_exporters_from_environment({NAMES: "otlp,console"})
    assert [type(exporter) for exporter in exporters] == [ConsoleMetricExporter]
    messages = [record.message for record in caplog.records if record.name.startswith("otel_torchprof")]
    assert messages == [
        "otel-torchprof: metrics are not sent by otlp: ValueError: could not convert string to float: 'soon'"
    ]


def test_prometheus_is_named() -> None:
    assert names_prometheus({NAMES: "otlp, prometheus"})
    assert not names_prometheus({NAMES: "otlp"})
    assert not names_prometheus({})


@pytest.mark.parametrize(
    ("value", "disabled"), [("true", True), (" TRUE ", True), ("false", False), ("1", False)]
)
def test_opentelemetry_may_be_off(value: str, disabled: bool) -> None:
    assert is_sdk_disabled({"OTEL_SDK_DISABLED": value}) is disabled


def test_intervals_are_milliseconds() -> None:
    assert read_export_interval_s({}) == 60.0
    assert read_export_interval_s({"OTEL_METRIC_EXPORT_INTERVAL": "250"}) == 0.25
    assert read_export_timeout_s({}) == 30.0
    assert read_export_timeout_s({"OTEL_METRIC_EXPORT_TIMEOUT": " 500.5 "}) == 0.5005


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "1 min"])
def test_a_bad_interval_is_said_and_not_used(value: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    assert read_export_interval_s({"OTEL_METRIC_EXPORT_INTERVAL": value}) == 60.0
    assert [record.message for record in caplog.records] == [
        "otel-torchprof: OTEL_METRIC_EXPORT_INTERVAL is not a number of milliseconds above 0: using 60000"
    ]
