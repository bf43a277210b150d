"""A real OpenTelemetry collector (rotel) as a process of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import rotel

from tests.support.ports import free_ports, listens
from tests.support.server_process import ServerProcess


class RotelCollector(ServerProcess):
    """Receives OTLP over gRPC and HTTP and forwards it to `forward_to`, an OTLP/HTTP base URL, or throws it
    away. When it is stopped it first sends what it holds.

    `folder` takes the log. Used as a context manager; `http_endpoint` and `grpc_endpoint` are base URLs.
    """

    def __init__(self, folder: Path, forward_to: str | None = None) -> None:
        super().__init__(folder / "rotel.log")
        self._forward_to = forward_to
        grpc_port, http_port = free_ports(2)
        self._ports = (grpc_port, http_port)
        self.grpc_endpoint = f"http://127.0.0.1:{grpc_port}"
        self.http_endpoint = f"http://127.0.0.1:{http_port}"

    def _command(self) -> list[str]:
        agent = Path(rotel.__file__).with_name("rotel-agent")
        grpc_port, http_port = self._ports
        command = [
            str(agent),
            "start",
            f"--otlp-grpc-endpoint=127.0.0.1:{grpc_port}",
            f"--otlp-http-endpoint=127.0.0.1:{http_port}",
            "--batch-timeout=50ms",
        ]
        if self._forward_to is None:
            return [*command, "--exporter=blackhole"]
        return [
            *command,
            "--exporter=otlp",
            f"--otlp-exporter-endpoint={self._forward_to}",
            "--otlp-exporter-protocol=http",
            "--otlp-exporter-compression=none",
        ]

    def _environ(self) -> Mapping[str, str]:
        return {name: value for name, value in os.environ.items() if not name.startswith(("ROTEL_", "OTEL_"))}

    def _is_ready(self) -> bool:
        return all(listens(port) for port in self._ports)
