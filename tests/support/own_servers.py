"""Servers on threads of this process, which serve for as long as a `with` block."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import grpc
from typing_extensions import Self

_POLL_S = 0.05


class HttpServer:
    """An HTTP server on 127.0.0.1; whoever makes it calls `serve_on`."""

    _server: ThreadingHTTPServer

    def serve_on(self, port: int, handler: type[BaseHTTPRequestHandler]) -> None:
        """Binds `port`, a free one when it is 0."""
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class GrpcServer:
    """A gRPC server; whoever makes it sets `_server`."""

    _server: grpc.Server

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(grace=None).wait()
