"""Where metrics go, as settings and the environment say."""

from __future__ import annotations

import sys
from urllib.request import urlopen

import pytest
from opentelemetry.sdk.resources import Resource

from otel_torchprof.telemetry import metric_output
from otel_torchprof.telemetry.metric_output import MetricOutput
from tests.support.metric_families import KeepingExporter, op_calls
from tests.support.ports import free_ports

NO_EXPORTER = {"OTEL_METRICS_EXPORTER": "none"}
TIMEOUT_S = 60.0


def make_output(environ: dict[str, str] | None = None, **options: object) -> MetricOutput:
    return MetricOutput(
        lambda: [op_calls(5)],
        lambda: Resource({"service.name": "x"}),
        NO_EXPORTER if environ is None else environ,
        **options,  # type: ignore[arg-type]
    )


def scrape(port: int | None) -> bytes:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as response:
        body: bytes = response.read()
        return body


def test_an_exporter_given_by_hand_goes_before_those_that_are_named() -> None:
    exporter = KeepingExporter()
    output = make_output({"OTEL_METRICS_EXPORTER": "console"}, exporter=exporter)
    output.start()
    assert output.flush(TIMEOUT_S)
    assert output.shutdown(TIMEOUT_S)
    assert len(exporter.exported) == 2


def test_each_local_rank_listens_on_a_port_of_its_own() -> None:
    (port,) = free_ports(1)
    output = make_output(prometheus_port=port - 1, local_rank=lambda: 1)
    output.start()
    assert output.endpoint_port == port
    assert b'service_name="x"' in scrape(port)
    output.pause()
    assert b"torch_op_calls_total" in scrape(port)
    output.start()
    assert output.endpoint_port == port
    assert output.shutdown(TIMEOUT_S)
    assert output.endpoint_port is None


def test_prometheus_named_as_an_exporter_has_a_port_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    (port,) = free_ports(1)
    monkeypatch.setattr(metric_output, "_DEFAULT_PROMETHEUS_PORT", port)
    output = make_output({"OTEL_METRICS_EXPORTER": "prometheus"})
    output.start()
    assert output.endpoint_port == port
    output.shutdown(TIMEOUT_S)


def test_a_disabled_sdk_has_neither() -> None:
    exporter = KeepingExporter()
    (port,) = free_ports(1)
    output = make_output({"OTEL_SDK_DISABLED": "true"}, exporter=exporter, prometheus_port=port)
    output.start()
    assert output.endpoint_port is None
    assert output.shutdown(TIMEOUT_S)
    assert exporter.exported == []


def test_without_prometheus_client_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = KeepingExporter()
    for module in ("prometheus", "prometheus_endpoint"):
        monkeypatch.delitem(sys.modules, f"otel_torchprof.telemetry.{module}", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    output = make_output(exporter=exporter, prometheus_port=9)
    output.start()
    output.start()
    assert output.shutdown(TIMEOUT_S)  # the exporter goes on
    assert len(exporter.exported) == 1
    (line,) = caplog.messages
    assert line.startswith("otel-torchprof: nothing listens for Prometheus: prometheus_client")
    assert line.endswith("is not installed (pip install 'otel-torchprof[prometheus]')")
