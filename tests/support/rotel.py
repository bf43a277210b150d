"""A real OpenTelemetry collector (rotel) as a process of its own."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType

import rotel
from typing_extensions import Self

from tests.support.ports import free_ports, listens

_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10.0
_POLL_S = 0.02


class RotelCollector:
    """Receives OTLP over gRPC and HTTP and forwards it to `forward_to`, an OTLP/HTTP base URL, or throws it
    away.

    `folder` takes the log. Used as a context manager; `http_endpoint` and `grpc_endpoint` are base URLs.
    """

    def __init__(self, folder: Path, forward_to: str | None = None) -> None:
        self._log_path = folder / "rotel.log"
        self._forward_to = forward_to
        grpc_port, http_port = free_ports(2)
        self._ports = (grpc_port, http_port)
        self.grpc_endpoint = f"http://127.0.0.1:{grpc_port}"
        self.http_endpoint = f"http://127.0.0.1:{http_port}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
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
            command.append("--exporter=blackhole")
        else:
            command += [
                "--exporter=otlp",
                f"--otlp-exporter-endpoint={self._forward_to}",
                "--otlp-exporter-protocol=http",
                "--otlp-exporter-compression=none",
            ]
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("ROTEL_", "OTEL_"))
        }
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(command, env=environ, stdout=log, stderr=subprocess.STDOUT)
        try:
            self._wait_until_listening()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process, which first sends what it holds."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_until_listening(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        for port in self._ports:
            while not listens(port):
                if self._has_ended_within(_POLL_S) or time.monotonic() > deadline:
                    raise RuntimeError(
                        f"rotel does not listen on {port}: {self._log_path.read_text()[-2000:]}"
                    )

    def _has_ended_within(self, timeout_s: float) -> bool:
        assert self._process is not None
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        return True
