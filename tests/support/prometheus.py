"""A real Prometheus on loopback, with storage of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.ports import free_ports, listens
from tests.support.required_tools import skip_or_fail
from tests.support.server_process import ServerProcess

_REQUEST_TIMEOUT_S = 30.0


class PrometheusServer(ServerProcess):
    """Prometheus with the configuration file `config`; used as a context manager.

    `folder` takes its storage and its log. Where Prometheus is not installed the test is skipped, in CI it
    fails.
    """

    def __init__(self, folder: Path, config: Path) -> None:
        super().__init__(folder / "prometheus.log")
        self._config = config
        self._storage = folder / "storage"
        (self._port,) = free_ports(1)

    def backfill(self, openmetrics: Path) -> None:
        """Store samples with their times; before the start."""
        require_prometheus()
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", str(openmetrics), str(self._storage)],
            check=True,
            capture_output=True,
            timeout=120,
        )

    def _command(self) -> list[str]:
        return [
            require_prometheus(),
            f"--config.file={self._config}",
            f"--storage.tsdb.path={self._storage}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--enable-feature=exemplar-storage",
        ]

    def query(self, text: str, at_unix_s: float | None = None) -> list[dict[str, Any]]:
        """The result of an instant query; a scalar as one item without labels."""
        parameters = {"query": text} | ({} if at_unix_s is None else {"time": f"{at_unix_s}"})
        return _series(self._get("query", parameters))

    def query_range(self, text: str, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        """The result of a range query."""
        parameters = {"query": text, "start": f"{start_s}", "end": f"{end_s}", "step": f"{step_s}"}
        return _series(self._get("query_range", parameters))

    def exemplars(self, text: str, start_s: float, end_s: float) -> list[dict[str, Any]]:
        """The exemplars of the series that a query selects."""
        found: list[dict[str, Any]] = self._get(
            "query_exemplars", {"query": text, "start": f"{start_s}", "end": f"{end_s}"}
        )
        return found

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their health."""
        return [rule for group in self._get("rules", {})["groups"] for rule in group["rules"]]

    def _is_ready(self) -> bool:
        if not listens(self._port):
            return False
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _get(self, path: str, parameters: dict[str, str]) -> Any:
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=_REQUEST_TIMEOUT_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {json.load(error)['error']}") from None


def require_prometheus() -> str:
    """The path of the program; where it or promtool is missing, skips the test, in CI fails it."""
    found = shutil.which("prometheus")
    if found is None or shutil.which("promtool") is None:
        skip_or_fail("Prometheus is not installed (apt-get install prometheus)")
    return found


def _series(data: dict[str, Any]) -> list[dict[str, Any]]:
    if data["resultType"] == "scalar":
        return [{"metric": {}, "value": data["result"]}]
    result: Sequence[dict[str, Any]] = data["result"]
    return list(result)
