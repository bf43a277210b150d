"""The endpoint: whoever scrapes it, however badly, the program does not notice."""

from __future__ import annotations

import gzip
import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.request import Request, urlopen

import pytest

from otel_torchprof.telemetry import prometheus_endpoint
from otel_torchprof.telemetry.prometheus import TorchprofCollector
from otel_torchprof.telemetry.prometheus_endpoint import MAX_CONNECTIONS, PrometheusEndpoint
from tests.support.metric_families import op_calls
from tests.support.prometheus_text import parse

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
TIMEOUT_S = 60.0


@pytest.fixture
def start() -> Iterator[Callable[..., PrometheusEndpoint]]:
    started: list[PrometheusEndpoint] = []

    def start_one(collector: TorchprofCollector | None = None, **options: object) -> PrometheusEndpoint:
        collector = collector or TorchprofCollector(lambda: [op_calls(5)])
        endpoint = PrometheusEndpoint(collector, **{"port": 0, **options})  # type: ignore[arg-type]
        started.append(endpoint)
        endpoint.start()
        return endpoint

    yield start_one
    for endpoint in started:
        endpoint.stop()


def scrape(endpoint: PrometheusEndpoint, headers: dict[str, str] | None = None) -> tuple[str, bytes]:
    request = Request(f"http://127.0.0.1:{endpoint.port}/metrics", headers=headers or {})
    with urlopen(request, timeout=TIMEOUT_S) as response:
        return response.headers["content-type"], response.read()


def connect(endpoint: PrometheusEndpoint) -> socket.socket:
    assert endpoint.port is not None
    return socket.create_connection(("127.0.0.1", endpoint.port), TIMEOUT_S)


def test_both_formats_and_compression(start: Callable[..., PrometheusEndpoint]) -> None:
    endpoint = start()
    kind, body = scrape(endpoint)
    assert kind.startswith("text/plain")
    assert list(parse(body.decode(), openmetrics=False)) == ["torch_op_calls"]
    kind, body = scrape(endpoint, {"Accept": OPENMETRICS})
    assert kind.startswith("application/openmetrics-text")
    assert list(parse(body.decode(), openmetrics=True)) == ["torch_op_calls"]
    _, body = scrape(endpoint, {"Accept": OPENMETRICS, "Accept-Encoding": "gzip"})
    assert b"torch_op_calls_total" in gzip.decompress(body)


def test_it_listens_on_loopback_only(start: Callable[..., PrometheusEndpoint]) -> None:
    endpoint = start()
    assert endpoint._server is not None
    assert endpoint._server.server_address[0] == "127.0.0.1"
    elsewhere = start(host="0.0.0.0")
    assert elsewhere._server is not None
    assert elsewhere._server.server_address[0] == "0.0.0.0"


def test_a_port_in_use_is_one_warning_with_the_way_out(
    start: Callable[..., PrometheusEndpoint], caplog: pytest.LogCaptureFixture
) -> None:
    port = start().port
    second = start(port=port)
    assert second.port is None
    assert [record.message for record in caplog.records] == [
        f"otel-torchprof: nothing listens for Prometheus: port {port} of 127.0.0.1 is in use; "
        "choose another by OTEL_PYTHON_TORCHPROF_PROMETHEUS_PORT"
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [({"port": 65_536}, "there is no port 65536"), ({"host": "192.0.2.1"}, "cannot be listened on")],
)
def test_what_cannot_be_listened_on_is_said(
    start: Callable[..., PrometheusEndpoint],
    options: dict[str, object],
    said: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert start(**options).port is None
    (record,) = caplog.records
    assert said in record.message


def test_stopped_it_gives_the_port_free_and_can_start_again(start: Callable[..., PrometheusEndpoint]) -> None:
    endpoint = start()
    port = endpoint.port
    assert port is not None
    endpoint.stop()
    endpoint.stop()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert endpoint.start()
    assert b"torch_op_calls" in scrape(endpoint)[1]


def test_many_scrapers_at_once_are_all_answered(start: Callable[..., PrometheusEndpoint]) -> None:
    endpoint = start()
    together = threading.Barrier(10)

    def scrape_with_others(_: int) -> bytes:
        together.wait(TIMEOUT_S)
        return scrape(endpoint)[1]

    with ThreadPoolExecutor(10) as threads:
        bodies = set(threads.map(scrape_with_others, range(10)))
    assert len(bodies) == 1


def test_scrapers_that_stall_are_cut_off_and_others_served(
    start: Callable[..., PrometheusEndpoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus_endpoint._Handler, "timeout", 0.2)
    endpoint = start()
    with ExitStack() as stack:
        stalled = [stack.enter_context(connect(endpoint)) for _ in range(3)]
        stalled[0].sendall(b"GET /metrics HTTP/1.1\r\nHost")  # and never the rest
        assert b"torch_op_calls" in scrape(endpoint)[1]
        for connection in stalled:
            assert connection.recv(100) == b""  # closed by the other side


def test_more_connections_than_there_are_threads_for_are_refused(
    start: Callable[..., PrometheusEndpoint],
) -> None:
    endpoint = start()
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(endpoint)) for _ in range(MAX_CONNECTIONS)]
        assert connect(endpoint).recv(100) == b""
        silent.pop().close()
        # Its place becomes free once its thread has noticed.
        while True:
            try:
                body = scrape(endpoint)[1]
                break
            except OSError:
                continue
        assert b"torch_op_calls" in body


def test_a_collector_that_fails_is_an_error_for_the_scraper_only(
    start: Callable[..., PrometheusEndpoint], capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> list[object]:
        raise RuntimeError("no numbers")

    endpoint = start(TorchprofCollector(fail))  # type: ignore[arg-type]
    with pytest.raises(OSError, match="500"):
        scrape(endpoint)
    assert capfd.readouterr() == ("", "")


def test_a_forked_child_does_not_hold_the_port(start: Callable[..., PrometheusEndpoint]) -> None:
    endpoint = start()
    port = endpoint.port
    assert port is not None
    go, going = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(going)
            os.read(go, 1)
        finally:
            os._exit(0 if endpoint.port is None else 1)
    try:
        assert b"torch_op_calls" in scrape(endpoint)[1]
        endpoint.stop()
        with socket.socket() as probe:  # the child still lives
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    finally:
        os.close(go)
        os.close(going)
        assert os.waitpid(child, 0)[1] == 0
