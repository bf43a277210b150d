"""Processor time that making and sending telemetry takes: about as long as others wait for the GIL for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from otel_torchprof.telemetry.after_fork import rebuild_after_fork


class WorkTime:
    """Adds up the processor time of blocks of work on any threads; what waits costs nothing.

    Args:
        thread_time_ns: processor time of the calling thread.
    """

    def __init__(self, thread_time_ns: Callable[[], int] = time.thread_time_ns) -> None:
        self._thread_time_ns = thread_time_ns
        self._total_ns = 0
        self.rebuild_in_child()
        rebuild_after_fork(self)

    def rebuild_in_child(self) -> None:
        """Make a new lock, as another thread of the parent may hold this one, and forget open blocks."""
        self._lock = threading.RLock()  # a signal handler may export inside a measured block
        self._inside = threading.local()

    @property
    def total_ns(self) -> int:
        """What all blocks that ended took; never less than before."""
        return self._total_ns

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the body. A block inside another one on the same thread is part of that."""
        if getattr(self._inside, "is_measured", False):
            yield
            return
        inside = self._inside
        inside.is_measured = True
        start_ns = self._thread_time_ns()
        try:
            yield
        finally:
            spent_ns = self._thread_time_ns() - start_ns
            inside.is_measured = False
            with self._lock:
                self._total_ns += spent_ns


# Of this process: metrics are collected, and spans sent, from many places.
work_time = WorkTime()
