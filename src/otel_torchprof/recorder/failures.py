"""Failures inside the recorder: counted by reason, logged once per reason, never passed on to user code."""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

_logger = logging.getLogger("otel_torchprof")


class FailureLog:
    """Counts failures by reason and logs the first of each."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may fail inside a report
        self._counts: Counter[str] = Counter()
        os.register_at_fork(after_in_child=self._renew_lock)

    def count(self, reason: str) -> int:
        """Return how often `reason` was reported."""
        return self._counts[reason]

    def report(self, reason: str, error: BaseException) -> None:
        """Count a failure. `reason` says what did not happen, such as "step not counted"."""
        with self._lock:
            self._counts[reason] += 1
            first = self._counts[reason] == 1
        if first:
            _logger.warning("otel-torchprof: %s: %s (logged once)", reason, _cause(error))
            _logger.debug("where it came from", exc_info=error)

    @contextmanager
    def guard(self, reason: str) -> Iterator[None]:
        """Report an exception of the body as `reason` instead of raising it."""
        try:
            yield
        except Exception as error:
            self.report(reason, error)

    def _renew_lock(self) -> None:
        self._lock = threading.RLock()


def _cause(error: BaseException) -> str:
    """With the name of the class only where the message may say nothing without it."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror if error.filename is None else f"{error.strerror}: {error.filename}"
    if str(error) and type(error).__module__.startswith("otel_torchprof."):
        return str(error)
    return f"{type(error).__name__}: {error}"


failures = FailureLog()
