"""What can be told of an address that does not answer."""

from __future__ import annotations

import socket

import pytest

from otel_torchprof.telemetry.reachability import connection_failure


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_port_that_nothing_listens_on_refuses(host: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening
        assert connection_failure(f"{host}:{unused.getsockname()[1]}") == "Connection refused"


def test_one_that_listens_is_no_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert connection_failure(f"127.0.0.1:{server.getsockname()[1]}") is None


@pytest.mark.parametrize(
    "target",
    ["collector:4317", "unix:/run/otlp", "dns:///localhost:1", "127.0.0.1", "127.0.0.1:x", "[::1", ""],
)
def test_what_needs_a_look_up_or_is_no_address_is_not_tried(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def connect(*_: object) -> None:
        raise AssertionError(target)

    monkeypatch.setattr(socket, "create_connection", connect)
    assert connection_failure(target) is None
