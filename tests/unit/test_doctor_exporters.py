"""`doctor` on exporters: a name that nothing provides stops opentelemetry-instrument, so it is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_torchprof.doctor.check import Check
from otel_torchprof.doctor.exporters import EXPORTER_CHECKS

STOPS = "opentelemetry-instrument then starts nothing at all"
VARIABLES = {
    "span": "OTEL_TRACES_EXPORTER",
    "metric": "OTEL_METRICS_EXPORTER",
    "log": "OTEL_LOGS_EXPORTER",
}


def check(kind: str, **environ: str) -> Check:
    (found,) = [
        found for one in EXPORTER_CHECKS if (found := one(environ)).name.removesuffix(" exporters") == kind
    ]
    return found


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, entry_points: str, *, alone: bool = False) -> None:
    """A distribution with these entry points; `alone`: the only one."""
    information = folder / "some_exporter-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: some-exporter\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(entry_points)
    if alone:
        monkeypatch.setattr("sys.path", [str(folder)])
    else:
        monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize("kind", VARIABLES)
def test_exporters_that_are_there_are_ok(kind: str) -> None:
    name, variable = f"{kind} exporters", VARIABLES[kind]
    assert check(kind) == Check(name, "ok", "otlp, the default")
    both = check(kind, **{variable: "console, otlp_proto_http"})
    assert both == Check(name, "ok", "console, otlp_proto_http")
    for nothing in ("none", " None ", ""):
        found = check(kind, **{variable: nothing})
        assert (found.state, found.detail) == ("off", f"turned off by {variable}")


def test_the_file_of_spans_is_an_exporter_of_spans() -> None:
    assert check("span", OTEL_TRACES_EXPORTER="otlp_file").state == "ok"
    assert check("metric", OTEL_METRICS_EXPORTER="otlp_file").state == "missing"


@pytest.mark.parametrize("kind", VARIABLES)
@pytest.mark.parametrize(
    ("setting", "named"),
    [("otlp,nosuch", "nosuch"), ("otlp,", "an empty name"), ("otlp,none", "none"), ("OTLP", "OTLP")],
)
def test_a_name_that_nothing_provides_is_missing(kind: str, setting: str, named: str) -> None:
    found = check(kind, **{VARIABLES[kind]: setting})
    assert found.state == "missing"
    assert found.detail == f"{VARIABLES[kind]} names {named}, which is not installed; {STOPS}"
    assert found.way_out.startswith("use one of console, otlp, ")


@pytest.mark.parametrize(("setting", "rest"), [("prometheus", "none"), ("otlp,prometheus", "otlp")])
def test_the_way_out_for_prometheus_is_our_own_endpoint(setting: str, rest: str) -> None:
    assert check("metric", OTEL_METRICS_EXPORTER=setting) == Check(
        "metric exporters",
        "missing",
        f"OTEL_METRICS_EXPORTER names prometheus, which is not installed; {STOPS}",
        f"set OTEL_PYTHON_TORCHPROF_PROMETHEUS_PORT (9464 is usual) and OTEL_METRICS_EXPORTER={rest}, or "
        "pip install opentelemetry-exporter-prometheus",
    )


def test_an_exporter_of_another_package_is_ok(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "[opentelemetry_metrics_exporter]\nprometheus = some.module:Reader\n")
    found = check("metric", OTEL_METRICS_EXPORTER="prometheus")
    assert found == Check("metric exporters", "ok", "prometheus")
    assert check("span", OTEL_TRACES_EXPORTER="prometheus").state == "missing"


def test_otlp_is_that_of_its_protocol(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry_points = (
        "[opentelemetry_distro]\ndistro = some.module:Distro\n"
        "[opentelemetry_traces_exporter]\notlp_proto_http = some.module:Exporter\n"
    )
    install(monkeypatch, tmp_path, entry_points, alone=True)
    found = check("span")
    assert (found.state, found.way_out) == ("missing", "pip install 'otel-torchprof[otlp]'")
    assert found.detail == (
        f"OTEL_TRACES_EXPORTER names otlp as otlp_proto_grpc, which is not installed; {STOPS}"
    )
    assert check("span", OTEL_EXPORTER_OTLP_PROTOCOL="http/protobuf").state == "ok"
    assert check("span", OTEL_EXPORTER_OTLP_TRACES_PROTOCOL="http/protobuf").state == "ok"
    one_for_each = {
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
    }
    assert check("span", **one_for_each).state == "missing"


def test_a_protocol_that_the_sdk_does_not_speak_is_missing() -> None:
    assert check("log", OTEL_EXPORTER_OTLP_PROTOCOL="http/json") == Check(
        "log exporters",
        "missing",
        f"OTEL_EXPORTER_OTLP_PROTOCOL='http/json' is not supported; {STOPS}",
        "set it to one of grpc, http/protobuf",
    )


def test_without_a_distribution_of_opentelemetry_nothing_is_sent_and_nothing_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch, tmp_path, "", alone=True)
    for kind in VARIABLES:
        assert check(kind).state == "off"
