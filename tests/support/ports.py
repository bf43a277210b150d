"""Ports of loopback for servers that tests start as processes of their own."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
    finally:
        for item in sockets:
            item.close()


def listens(port: int) -> bool:
    """Whether something accepts connections on `port`."""
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0
