"""`doctor` on the Collector: whether anything listens where spans go."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from otel_torchprof.doctor.check import Check
from otel_torchprof.doctor.collector import check_collector

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OF_SPANS = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.fixture
def port() -> Iterator[int]:
    """Of somebody who listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("address", ["http://127.0.0.1:{}", "http://127.0.0.1:{}/v1/traces", "127.0.0.1:{}"])
def test_something_that_listens_is_found(port: int, address: str) -> None:
    found = check_collector({ENDPOINT: address.format(port)})
    assert found == Check("Collector", "ok", f"something listens at 127.0.0.1:{port}, which {ENDPOINT} names")


def test_the_endpoint_of_spans_comes_first(port: int, closed_port: int) -> None:
    environ = {ENDPOINT: f"http://127.0.0.1:{closed_port}", OF_SPANS: f"http://127.0.0.1:{port}"}
    assert check_collector(environ).state == "ok"


def test_nobody_at_an_endpoint_that_was_asked_for_is_missing(closed_port: int) -> None:
    found = check_collector({ENDPOINT: f"http://user:s3cret@127.0.0.1:{closed_port}"})
    assert found.state == "missing"
    assert found.detail == (
        f"nothing to be reached at 127.0.0.1:{closed_port}, which {ENDPOINT} names: Connection refused"
    )
    assert "start one there" in found.way_out


@pytest.mark.parametrize(("protocol", "port"), [("grpc", 4317), ("http/protobuf", 4318)])
def test_the_default_is_tried_too(monkeypatch: pytest.MonkeyPatch, protocol: str, port: int) -> None:
    tried: list[tuple[str, int]] = []

    def refuse(address: tuple[str, int], timeout: float) -> socket.socket:
        assert timeout <= 5
        tried.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", refuse)
    found = check_collector({"OTEL_EXPORTER_OTLP_PROTOCOL": protocol})
    assert tried == [("localhost", port)]
    assert (found.state, found.detail) == (
        "off",
        f"nothing to be reached at localhost:{port}, the default: Connection refused",
    )


def test_an_exporter_named_with_its_protocol_has_that_default(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(address: tuple[str, int], timeout: float) -> socket.socket:
        assert (address, timeout) == (("localhost", 4318), 2)
        return socket.socket()

    monkeypatch.setattr(socket, "create_connection", answer)
    assert check_collector({"OTEL_TRACES_EXPORTER": "otlp_proto_http"}).state == "ok"


@pytest.mark.parametrize("exporter", ["none", "otlp_file", "console"])
def test_without_otlp_nothing_is_tried(exporter: str) -> None:
    found = check_collector({"OTEL_TRACES_EXPORTER": exporter, ENDPOINT: "http://127.0.0.1:1"})
    assert found == Check("Collector", "off", "not tried: spans are not sent by OTLP")


@pytest.mark.parametrize("address", ["http://", "http://[::1", "http://host:port", ""])
def test_what_is_no_address_is_said(address: str) -> None:
    found = check_collector({ENDPOINT: address})
    assert found.state == ("missing" if address else "off")
    if address:
        assert found.detail == f"{ENDPOINT} is no address"


def test_behind_a_proxy_nothing_is_tried(closed_port: int) -> None:
    environ = {ENDPOINT: f"https://127.0.0.1:{closed_port}", "HTTPS_PROXY": "http://user:s3cret@proxy:3128"}
    found = check_collector(environ)
    assert found.state == "ok"
    assert found.detail.endswith("not tried: it may be reached through a proxy only")
    assert "s3cret" not in found.detail
