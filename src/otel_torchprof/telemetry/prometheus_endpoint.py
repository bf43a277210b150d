"""The endpoint that a Prometheus scrapes: threads of its own, few, and none of them waits for ever."""

from __future__ import annotations

import errno
import io
import logging
import socket
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.telemetry.after_fork import rebuild_after_fork
from otel_torchprof.telemetry.work_time import work_time

_logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_PORT_VARIABLE = "OTEL_PYTHON_TORCHPROF_PROMETHEUS_PORT"
_MAX_PORT = 65_535
# Connections at one time; more are closed at once.
MAX_CONNECTIONS = 16
# A peer that neither sends nor reads for this long is cut off.
STALL_TIMEOUT_S = 10.0
_RETRY_S = 1.0


class PrometheusEndpoint:
    """Serves what one collector yields, in both text formats, on any path. Raises nothing after it is made.

    A forked child has none: the port is the parent's.
    """

    def __init__(self, collector: Collector, *, port: int, host: str = LOOPBACK) -> None:
        self._collector = collector
        self._host = host
        self._asked_for = port
        self._server: _Server | None = None
        rebuild_after_fork(self)

    @property
    def port(self) -> int | None:
        """The port that is listened on; None while there is none."""
        return None if self._server is None else int(self._server.server_address[1])

    def start(self) -> bool:
        """Listen; False, and one warning with the way out, where that is not possible."""
        if self._server is not None:
            return True
        if not 0 <= self._asked_for <= _MAX_PORT:
            self._warn(f"there is no port {self._asked_for}, the given one plus the local rank")
            return False
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self._collector)
        try:
            server = _Server((self._host, self._asked_for), _family(self._host))
        except OSError as error:
            in_use = error.errno == errno.EADDRINUSE
            what = "is in use" if in_use else f"cannot be listened on ({error.strerror or error})"
            self._warn(f"port {self._asked_for} of {self._host} {what}")
            return False
        server.set_app(_measured(make_wsgi_app(registry)))
        try:
            threading.Thread(target=server.serve, name=f"{OWN_THREAD_PREFIX}prometheus", daemon=True).start()
        except RuntimeError as error:  # no more threads
            server.stop()
            self._warn(str(error))
            return False
        self._server = server
        return True

    def stop(self) -> None:
        """Listen no more. Scrapes that are being answered go on. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()

    def rebuild_in_child(self) -> None:
        """Let go of the parent's socket, which would stay in use for as long as this process lives."""
        server, self._server = self._server, None
        if server is not None:
            server.socket.close()

    def _warn(self, cause: str) -> None:
        _logger.warning(
            "otel-torchprof: nothing listens for Prometheus: %s; choose another by %s", cause, _PORT_VARIABLE
        )


def _measured(answer: Callable[[Any, Any], Iterable[bytes]]) -> Callable[[Any, Any], Iterable[bytes]]:
    def answer_measured(environ: Any, start_response: Any) -> Iterable[bytes]:
        with work_time.measured():
            return answer(environ, start_response)

    return answer_measured


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


class _Server(ThreadingMixIn, WSGIServer):
    """One thread a connection, a bounded number of them, and no polling."""

    daemon_threads = True
    # Handlers are not waited for: one may be stalled.
    block_on_close = False

    def __init__(self, address: tuple[str, int], family: socket.AddressFamily) -> None:
        self.address_family = family
        self._free = threading.BoundedSemaphore(MAX_CONNECTIONS)
        self._stopped = threading.Event()
        super().__init__(address, _Handler)

    def server_bind(self) -> None:
        # As the base classes do, but without their look-up of our own name, which may take seconds.
        TCPServer.server_bind(self)
        host, self.server_port = self.server_address[:2]
        self.server_name = str(host)
        self.setup_environ()

    def serve(self) -> None:
        while not self._stopped.is_set():
            try:
                connection, address = self.get_request()
            except OSError:
                # Stopped, or out of file descriptors for a while.
                self._stopped.wait(_RETRY_S)
                continue
            if not self._free.acquire(blocking=False):
                self.shutdown_request(connection)
                continue
            try:
                self.process_request(connection, address)
            except RuntimeError:  # no more threads
                self._free.release()
                self.shutdown_request(connection)

    def stop(self) -> None:
        self._stopped.set()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
        self.server_close()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        _logger.debug("a scrape was not answered", exc_info=True)


class _Handler(WSGIRequestHandler):
    # For each read and each write of the connection.
    timeout = STALL_TIMEOUT_S

    def log_message(self, format: str, *args: Any) -> None:
        """Scrapes are no news."""

    def get_stderr(self) -> io.StringIO:
        return io.StringIO()
