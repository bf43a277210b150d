"""Servers that are programs of their own, started for as long as a `with` block."""

from __future__ import annotations

import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

from typing_extensions import Self

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0
_POLL_S = 0.02


class ServerProcess(ABC):
    """A program that is ready inside the block.

    Args:
        log: takes what it prints.
    """

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def _command(self) -> list[str]:
        """The program and its arguments."""

    @abstractmethod
    def _is_ready(self) -> bool: ...

    def _environ(self) -> Mapping[str, str] | None:
        """Its environment; None for that of this process."""
        return None

    def __enter__(self) -> Self:
        command = self._command()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, env=self._environ(), stdout=log, stderr=subprocess.STDOUT
            )
        try:
            self.wait_for(self._is_ready, "it is ready")
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process, which may first finish what it holds. Idempotent."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float = _START_TIMEOUT_S) -> None:
        """Return when `condition` holds.

        Raises:
            RuntimeError: with the log, when the process ends first or the time is up.
        """
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self._process is not None
            try:
                self._process.wait(_POLL_S)
            except subprocess.TimeoutExpired:
                if time.monotonic() < deadline:
                    continue
            raise RuntimeError(f"not so: {what}: {self._log.read_text()[-2000:]}")
