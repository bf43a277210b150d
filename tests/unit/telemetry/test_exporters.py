"""OTEL_TRACES_EXPORTER and the protocol: which destinations come of them."""

from __future__ import annotations

import builtins
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import ConsoleSpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.destinations import ExporterDestination, RequestDestination
from otel_torchprof.telemetry.exporters import destination_for, destinations_from_environment
from otel_torchprof.telemetry.otlp_file import OtlpFileSender, OtlpFileSpanExporter
from otel_torchprof.telemetry.otlp_grpc import OtlpGrpcSender
from otel_torchprof.telemetry.otlp_http import OtlpHttpSender

EXPORTER = "OTEL_TRACES_EXPORTER"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
TRACES_PROTOCOL = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"


def kinds(environ: Mapping[str, str]) -> list[type]:
    """The sender or exporter of each destination."""
    found: list[type] = []
    for destination in destinations_from_environment(environ, lambda: Resource({}), ExportCounters()):
        if isinstance(destination, RequestDestination):
            found.append(type(destination.sender))
        else:
            assert isinstance(destination, ExporterDestination)
            found.append(type(destination.exporter))
    return found


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, [OtlpGrpcSender]),
        ({EXPORTER: ""}, [OtlpGrpcSender]),
        ({EXPORTER: "otlp", PROTOCOL: "http/protobuf"}, [OtlpHttpSender]),
        ({EXPORTER: "otlp", PROTOCOL: "http/protobuf", TRACES_PROTOCOL: "grpc"}, [OtlpGrpcSender]),
        ({EXPORTER: "otlp_proto_http", PROTOCOL: "grpc"}, [OtlpHttpSender]),
        ({EXPORTER: "otlp_proto_grpc"}, [OtlpGrpcSender]),
        ({EXPORTER: "none"}, []),
        ({EXPORTER: "otlp", "OTEL_SDK_DISABLED": "TRUE"}, []),
        ({EXPORTER: "console", "OTEL_SDK_DISABLED": "false"}, [ConsoleSpanExporter]),
        ({EXPORTER: "console"}, [ConsoleSpanExporter]),
        ({EXPORTER: " otlp , console, otlp,"}, [OtlpGrpcSender, ConsoleSpanExporter]),
    ],
)
def test_exporters_by_name(
    environ: dict[str, str], expected: list[type], caplog: pytest.LogCaptureFixture
) -> None:
    assert kinds(environ) == expected
    assert caplog.records == []


def test_http_json_is_refused_clearly(caplog: pytest.LogCaptureFixture) -> None:
    assert kinds({EXPORTER: "otlp,console", TRACES_PROTOCOL: "http/json"}) == [ConsoleSpanExporter]
    assert [record.getMessage() for record in caplog.records] == [
        "otel-torchprof: spans are not sent: the OTLP protocol can be grpc or http/protobuf, not http/json"
    ]


def test_an_unknown_name_is_said_with_those_there_are(caplog: pytest.LogCaptureFixture) -> None:
    assert kinds({EXPORTER: "jaeger"}) == []
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "otel-torchprof: spans are not sent by jaeger: no such exporter; there are "
    )
    assert "console" in record.getMessage()


def test_parts_that_are_not_installed_are_said_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real_import = builtins.__import__

    def without_grpc(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "otel_torchprof.telemetry.otlp_grpc":
            raise ModuleNotFoundError("No module named 'grpc'", name="grpc")
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_grpc)
    assert kinds({}) == []
    assert [record.getMessage() for record in caplog.records] == [
        "otel-torchprof: spans are not sent by otlp: grpc is not installed "
        "(pip install 'otel-torchprof[otlp]')"
    ]


def test_an_exporter_given_by_hand() -> None:
    exporter = InMemorySpanExporter()
    destination = destination_for(exporter, lambda: Resource({}), ExportCounters())
    assert isinstance(destination, ExporterDestination)
    assert destination.exporter is exporter


def test_our_file_exporter_takes_encoded_requests(tmp_path: Path) -> None:
    exporter = OtlpFileSpanExporter(tmp_path / "spans.jsonl")
    destination = destination_for(exporter, lambda: Resource({}), ExportCounters())
    assert isinstance(destination, RequestDestination)
    assert isinstance(destination.sender, OtlpFileSender)


def test_importing_starts_no_thread_and_loads_no_transport() -> None:
    program = (
        "import sys, threading\n"
        "import otel_torchprof.telemetry.exporters, otel_torchprof.telemetry.pipeline\n"
        "import otel_torchprof.telemetry.context\n"
        "print(threading.active_count(), [m for m in ('grpc', 'urllib3', 'torch') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "1 []\n"
