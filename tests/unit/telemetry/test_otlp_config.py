"""The OTLP variables: precedence, paths, schemes; beside the SDK where it follows the specification."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as SdkGrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as SdkHttpExporter

from otel_torchprof.telemetry.otlp_config import (
    OtlpConfig,
    Protocol,
    read_otlp_config,
    read_otlp_protocol,
)

GENERIC = "OTEL_EXPORTER_OTLP_"
TRACES = "OTEL_EXPORTER_OTLP_TRACES_"


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        ({}, "http://localhost:4318/v1/traces"),
        ({GENERIC + "ENDPOINT": "http://collector:4318"}, "http://collector:4318/v1/traces"),
        ({GENERIC + "ENDPOINT": "http://collector:4318/"}, "http://collector:4318/v1/traces"),
        ({GENERIC + "ENDPOINT": "https://collector/otlp/"}, "https://collector/otlp/v1/traces"),
        ({TRACES + "ENDPOINT": "http://collector:4318/mine"}, "http://collector:4318/mine"),
        ({TRACES + "ENDPOINT": "http://traces/a", GENERIC + "ENDPOINT": "http://all/b"}, "http://traces/a"),
        ({TRACES + "ENDPOINT": "", GENERIC + "ENDPOINT": "http://all/b"}, "http://all/b/v1/traces"),
    ],
)
def test_http_endpoint_like_the_sdk(
    environ: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert read_otlp_config(environ, "http/protobuf").endpoint == url
    assert SdkHttpExporter()._endpoint == url


@pytest.mark.parametrize(
    ("environ", "url"),
    [
        # The specification: a specific endpoint without a path is the root.
        ({TRACES + "ENDPOINT": "http://collector:4318"}, "http://collector:4318/"),
        # The path is appended to the path, not to the query.
        ({GENERIC + "ENDPOINT": "http://collector/otlp?key=1"}, "http://collector/otlp/v1/traces?key=1"),
        ({GENERIC + "ENDPOINT": " http://collector:4318 "}, "http://collector:4318/v1/traces"),
        ({GENERIC + "ENDPOINT": "http://[::1]:4318"}, "http://[::1]:4318/v1/traces"),
    ],
)
def test_http_endpoint_by_the_specification(environ: dict[str, str], url: str) -> None:
    assert read_otlp_config(environ, "http/protobuf").endpoint == url


@pytest.mark.parametrize(
    "bad", ["collector:4318", "ftp://collector", "http://", "http://host:port", "http://[::1"]
)
@pytest.mark.parametrize("variable", [GENERIC + "ENDPOINT", TRACES + "ENDPOINT"])
def test_a_bad_http_endpoint_is_logged_and_the_default_used(
    bad: str, variable: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_otlp_config({variable: bad}, "http/protobuf").endpoint == "http://localhost:4318/v1/traces"
    assert [record.getMessage() for record in caplog.records] == [
        f"{variable} is not an http:// or https:// URL: using the default endpoint"
    ]


@pytest.mark.parametrize(
    ("environ", "target", "insecure"),
    [
        ({}, "localhost:4317", True),
        ({GENERIC + "ENDPOINT": "http://collector:4317"}, "collector:4317", True),
        ({GENERIC + "ENDPOINT": "https://collector:4317"}, "collector:4317", False),
        ({GENERIC + "ENDPOINT": "collector:4317"}, "collector:4317", False),
        ({GENERIC + "ENDPOINT": "collector:4317", GENERIC + "INSECURE": "true"}, "collector:4317", True),
        ({GENERIC + "ENDPOINT": "collector:4317", TRACES + "INSECURE": "True"}, "collector:4317", True),
        ({GENERIC + "ENDPOINT": "https://collector:1", GENERIC + "INSECURE": "true"}, "collector:1", False),
        ({TRACES + "ENDPOINT": "http://traces:1", GENERIC + "ENDPOINT": "https://all:2"}, "traces:1", True),
    ],
)
def test_grpc_endpoint_like_the_sdk(
    environ: dict[str, str], target: str, insecure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    config = read_otlp_config(environ, "grpc")
    assert (config.endpoint, config.insecure) == (target, insecure)
    sdk = SdkGrpcExporter()
    sdk_endpoint, sdk_insecure = sdk._endpoint, sdk._insecure
    sdk.shutdown()
    assert sdk_endpoint == target
    if (TRACES + "INSECURE" in environ) or (GENERIC + "INSECURE" not in environ) or target != "collector:1":
        assert sdk_insecure == insecure


@pytest.mark.parametrize(
    ("environ", "target", "insecure"),
    [
        # A scheme takes precedence over INSECURE (the SDK lets INSECURE=false win over http).
        ({GENERIC + "ENDPOINT": "http://collector:1", GENERIC + "INSECURE": "false"}, "collector:1", True),
        ({GENERIC + "ENDPOINT": "http://collector:1/path"}, "collector:1", True),
        ({GENERIC + "ENDPOINT": "unix:///run/otel.sock"}, "unix:///run/otel.sock", True),
        ({GENERIC + "ENDPOINT": "unix:otel.sock", GENERIC + "INSECURE": "false"}, "unix:otel.sock", False),
        (
            {GENERIC + "ENDPOINT": "dns:///collector:1", GENERIC + "INSECURE": "true"},
            "dns:///collector:1",
            True,
        ),
        ({GENERIC + "ENDPOINT": "http://[::1]:4317"}, "[::1]:4317", True),
        ({GENERIC + "ENDPOINT": "http://"}, "localhost:4317", True),
    ],
)
def test_grpc_endpoint_by_the_specification(environ: dict[str, str], target: str, insecure: bool) -> None:
    config = read_otlp_config(environ, "grpc")
    assert (config.endpoint, config.insecure) == (target, insecure)


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("api-key=secret", {"api-key": "secret"}),
        ("Authorization=Basic%20dXNlcjpwYXNz", {"authorization": "Basic dXNlcjpwYXNz"}),
        ("authorization=Bearer abc", {"authorization": "Bearer abc"}),
        (" a = 1 , b=2,,", {"a": "1", "b": "2"}),
        ("a=1=2==", {"a": "1=2=="}),
        ("a=", {"a": ""}),
        ("a=1,a=2", {"a": "2"}),
    ],
)
def test_headers_like_the_sdk(text: str, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(GENERIC + "HEADERS", text)
    assert dict(read_otlp_config({GENERIC + "HEADERS": text}, "http/protobuf").headers) == headers
    sdk = SdkHttpExporter()._client._headers
    assert {name: sdk[name] for name in headers} == headers


def test_headers_of_the_signal_replace_the_generic_ones() -> None:
    config = read_otlp_config({GENERIC + "HEADERS": "a=1", TRACES + "HEADERS": "b=2"}, "grpc")
    assert config.headers == (("b", "2"),)


@pytest.mark.parametrize(
    ("text", "protocol", "said"),
    [
        ("s3cret-token", "http/protobuf", "OTEL_EXPORTER_OTLP_HEADERS: entry 1 is not name=value: left out"),
        (
            "bad name=s3cret",
            "http/protobuf",
            "OTEL_EXPORTER_OTLP_HEADERS: entry 1 is not name=value: left out",
        ),
        (
            "key=s3cret%0d%0aHost: evil",
            "http/protobuf",
            "OTEL_EXPORTER_OTLP_HEADERS: the value of key holds control characters: left out",
        ),
        (
            "key=s3cret%C3%A9",
            "grpc",
            "OTEL_EXPORTER_OTLP_HEADERS: gRPC takes ASCII values only, key is not: left out",
        ),
    ],
)
def test_bad_headers_are_left_out_and_named_without_their_value(
    text: str, protocol: Protocol, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = read_otlp_config({GENERIC + "HEADERS": f"{text},good=1"}, protocol)
    assert config.headers == (("good", "1"),)
    assert [record.getMessage() for record in caplog.records] == [said]
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("environ", "timeout_s"),
    [
        ({}, 10.0),
        ({GENERIC + "TIMEOUT": "2.5"}, 2.5),
        ({GENERIC + "TIMEOUT": "20", TRACES + "TIMEOUT": "3"}, 3.0),
    ],
)
def test_timeout_like_the_sdk(
    environ: dict[str, str], timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert read_otlp_config(environ, "http/protobuf").timeout_s == timeout_s
    assert SdkHttpExporter()._client._timeout == timeout_s


@pytest.mark.parametrize("bad", ["10s", "0", "-1", "nan", "inf", "1e400"])
def test_a_bad_timeout_is_logged_and_the_default_used(bad: str, caplog: pytest.LogCaptureFixture) -> None:
    assert read_otlp_config({TRACES + "TIMEOUT": bad}, "grpc").timeout_s == 10.0
    assert [record.getMessage() for record in caplog.records] == [
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT is not a number of seconds above 0: using 10"
    ]


@pytest.mark.parametrize(
    ("environ", "compression", "warnings"),
    [
        ({}, "none", 0),
        ({GENERIC + "COMPRESSION": "gzip"}, "gzip", 0),
        ({GENERIC + "COMPRESSION": "none"}, "none", 0),
        ({GENERIC + "COMPRESSION": "gzip", TRACES + "COMPRESSION": "none"}, "none", 0),
        ({GENERIC + "COMPRESSION": "zstd"}, "none", 1),
    ],
)
@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_compression(
    environ: dict[str, str],
    compression: str,
    warnings: int,
    protocol: Protocol,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert read_otlp_config(environ, protocol).compression == compression
    assert len(caplog.records) == warnings


def test_certificates_each_for_itself() -> None:
    config = read_otlp_config(
        {
            GENERIC + "CERTIFICATE": "/all/ca.pem",
            GENERIC + "CLIENT_KEY": "/all/key.pem",
            TRACES + "CLIENT_KEY": "/traces/key.pem",
            GENERIC + "CLIENT_CERTIFICATE": "/all/cert.pem",
        },
        "grpc",
    )
    assert config.certificate_file == Path("/all/ca.pem")
    assert config.client_key_file == Path("/traces/key.pem")
    assert config.client_certificate_file == Path("/all/cert.pem")


@pytest.mark.parametrize(
    ("environ", "protocol"),
    [
        ({}, None),
        ({GENERIC + "PROTOCOL": "http/protobuf"}, "http/protobuf"),
        ({GENERIC + "PROTOCOL": "grpc", TRACES + "PROTOCOL": "http/json"}, "http/json"),
    ],
)
def test_protocol(environ: dict[str, str], protocol: str | None) -> None:
    assert read_otlp_protocol(environ) == protocol


def test_what_comes_from_outside_is_made_fit_for_a_log_line() -> None:
    config = OtlpConfig(
        "http/protobuf", "http://user:pw@host/", headers=(("authorization", "Bearer s3cret"),)
    )
    assert config.redact("bad token s3cret\nFORGED line") == "bad token *** FORGED line"
    assert config.redact("x" * 500) == "x" * 197 + "..."
    assert config.display_endpoint == "http://host/"
    assert "s3cret" not in repr(config)


def test_reading_says_nothing_where_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    read_otlp_config({GENERIC + "HEADERS": "key=s3cret", GENERIC + "ENDPOINT": "http://c:1"}, "grpc")
    assert caplog.records == []
