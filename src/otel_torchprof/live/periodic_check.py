"""A check made every second on a thread of its own, which holds nothing else up."""

from __future__ import annotations

import threading
from collections.abc import Callable

from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.recorder.failures import failures

PERIOD_S = 1.0


class PeriodicCheck:
    """Calls `check` once in `period_s` between `start` and `stop`; what it raises is reported, not passed on.

    A forked child makes one of its own.
    """

    def __init__(self, check: Callable[[], None], *, period_s: float = PERIOD_S) -> None:
        self._check = check
        self._period_s = period_s
        self._stopped: threading.Event | None = None

    def start(self) -> None:
        """Begin. Idempotent. Where no thread can be started nothing is checked."""
        if self._stopped is not None:
            return
        stopped = threading.Event()
        thread = threading.Thread(
            target=self._run, args=(stopped,), name=f"{OWN_THREAD_PREFIX}guard", daemon=True
        )
        with failures.guard("the cost of measuring is not watched"):
            thread.start()
            self._stopped = stopped

    def stop(self) -> None:
        """End soon, without waiting for a check under way. Idempotent."""
        stopped, self._stopped = self._stopped, None
        if stopped is not None:
            stopped.set()

    def _run(self, stopped: threading.Event) -> None:
        while not stopped.wait(self._period_s):
            with failures.guard("the cost of measuring was not checked"):
                self._check()
