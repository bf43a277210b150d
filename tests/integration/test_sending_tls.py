"""TLS and mutual TLS, over HTTP and gRPC."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from otel_torchprof.telemetry.exporters import otlp_sender
from otel_torchprof.telemetry.otlp_config import Protocol
from otel_torchprof.telemetry.send_result import SendResult
from tests.support.certificates import Certificates
from tests.support.otlp_sink import OtlpGrpcSink, OtlpHttpSink
from tests.support.requests import make_request

PREFIX = "OTEL_EXPORTER_OTLP_"
PAYLOAD = make_request(3).SerializeToString()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


def start_server(
    certificates: Certificates, protocol: Protocol, *, asks_for_client: bool = False
) -> AbstractContextManager[OtlpHttpSink | OtlpGrpcSink]:
    if protocol == "grpc":
        return OtlpGrpcSink(credentials=certificates.grpc_server_credentials(asks_for_client=asks_for_client))
    return OtlpHttpSink(tls=certificates.http_server_context(asks_for_client=asks_for_client))


def send(endpoint: str, protocol: Protocol, **settings: str) -> SendResult:
    environ = {f"{PREFIX}{name}": value for name, value in settings.items()}
    sender = otlp_sender({f"{PREFIX}ENDPOINT": endpoint, **environ}, protocol)
    try:
        return sender.send(PAYLOAD, 3)
    finally:
        sender.close()


both_protocols = pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])


@both_protocols
def test_a_server_whose_authority_is_trusted(certificates: Certificates, protocol: Protocol) -> None:
    with start_server(certificates, protocol) as server:
        assert send(server.endpoint, protocol, CERTIFICATE=certificates.path("ca.pem")) == SendResult(
            delivered=3
        )
        assert len(server.spans) == 3


@both_protocols
def test_a_server_with_a_client_certificate(certificates: Certificates, protocol: Protocol) -> None:
    with start_server(certificates, protocol, asks_for_client=True) as server:
        result = send(
            server.endpoint,
            protocol,
            CERTIFICATE=certificates.path("ca.pem"),
            CLIENT_CERTIFICATE=certificates.path("client.pem"),
            CLIENT_KEY=certificates.path("client.key"),
        )
        assert result == SendResult(delivered=3)


@pytest.mark.parametrize(
    ("protocol", "trusted"),
    [("http/protobuf", "other_ca.pem"), ("http/protobuf", None), ("grpc", "other_ca.pem")],
)
def test_a_server_of_another_authority_gets_nothing(
    certificates: Certificates, protocol: Protocol, trusted: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"TIMEOUT": "60"}
    if trusted:
        settings["CERTIFICATE"] = certificates.path(trusted)
    with start_server(certificates, protocol) as server:
        assert send(server.endpoint, protocol, **settings) == SendResult.dropped("tls", 3)
        assert server.received == []
    assert len(caplog.records) == 1
    assert "(tls): " in caplog.text


@both_protocols
def test_without_the_client_certificate_asked_for_nothing_is_delivered(
    certificates: Certificates, protocol: Protocol
) -> None:
    with start_server(certificates, protocol, asks_for_client=True) as server:
        result = send(server.endpoint, protocol, CERTIFICATE=certificates.path("ca.pem"), TIMEOUT="1")
        assert result.delivered == 0
        assert sum(result.dropped_by_reason.values()) == 3
        assert server.received == []


@both_protocols
def test_a_certificate_file_that_is_not_there(
    certificates: Certificates, protocol: Protocol, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = tmp_path / "missing.pem"
    with start_server(certificates, protocol) as server:
        assert send(server.endpoint, protocol, CERTIFICATE=str(missing)) == SendResult.dropped("tls", 3)
    (record,) = caplog.records
    assert record.getMessage().endswith(f"(tls): cannot read {missing}: No such file or directory")


def test_half_a_client_certificate(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    with start_server(certificates, "grpc") as server:
        result = send(server.endpoint, "grpc", CLIENT_KEY=certificates.path("client.key"))
    assert result == SendResult.dropped("tls", 3)
    assert "a client certificate and its key are needed both or neither" in caplog.text
