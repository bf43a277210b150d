"""Whether anything listens at an address, for those who only know that they got no answer from it."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

_TIMEOUT_S = 0.2


def connection_failure(target: str) -> str | None:
    """Why no connection can be made to `target`, `host:port`; None where one can, or where it is not tried.

    Only numeric addresses and localhost are tried: looking a name up may take any time.
    """
    try:
        parts = urlsplit(f"//{target}")
        host, port = parts.hostname, parts.port
        if host is None or port is None:
            return None
        if host != "localhost":
            ipaddress.ip_address(host)
    except ValueError:
        return None
    try:
        socket.create_connection((host, port), _TIMEOUT_S).close()
    except OSError as error:
        return error.strerror or str(error)
    return None
