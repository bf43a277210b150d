"""Python calls: every function, C function and resumption of a generator, on every thread."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType
from typing import Any

import otel_torchprof
from otel_torchprof._native import core
from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable

_OWN_PACKAGE = os.path.join(os.path.dirname(otel_torchprof.__file__), "")  # noqa: PTH118, PTH120 - as in code
_STANDARD_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")  # noqa: PTH118, PTH120
_SITE_PACKAGES = os.path.join(_STANDARD_LIBRARY, "site-packages", "")  # noqa: PTH118
# How the names begin of threads that only export: ours, and those of OpenTelemetry's SDK, for spans, logs
# and metrics, under all the names that its versions give them.
_EXPORTING_THREADS = (OWN_THREAD_PREFIX, "OtelBatch", "OtelPeriodicExportingMetricReader")


class PythonFrames(Source):
    """Records through CPython's profile hook, in front of a profile function that a thread has already.

    Threads that Python starts are recorded from their first call, other threads that enter Python from the
    first step after that; our own and those of OpenTelemetry's SDK, which send what was recorded, not at all.
    A thread whose program sets another profile function gets lost (`profiler_replaced` among the drops) until
    it sets none, or ours again.
    """

    name = "python_frames"

    def __init__(self) -> None:
        self._slot = -1

    def start(self, target: SourceTarget) -> None:
        try:
            core.start_python_frames(
                target.slot, _OWN_PACKAGE, _STANDARD_LIBRARY, _SITE_PACKAGES, _exporting_threads()
            )
        except RuntimeError as error:
            raise SourceUnavailable(str(error)) from None
        self._slot = target.slot
        _new_threads.watch(target.slot)

    def step_begins(self) -> None:
        core.watch_python_threads(_exporting_threads())

    def stop(self) -> None:
        slot, self._slot = self._slot, -1
        if slot >= 0:
            _new_threads.unwatch(slot)
            core.stop_python_frames(slot)


def _exporting_threads() -> list[int]:
    return [
        thread.ident
        for thread in threading.enumerate()
        if thread.ident is not None and thread.name.startswith(_EXPORTING_THREADS)
    ]


class _NewThreads:
    """The profile function that `threading` gives to threads it starts, as long as some capture wants it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may stop a capture while its thread starts one
        self._slots: set[int] = set()
        self._program_sets: Any = None
        os.register_at_fork(after_in_child=self._after_fork_in_child)

    def watch(self, slot: int) -> None:
        with self._lock:
            if not self._slots:
                self._program_sets = threading.getprofile()
                threading.setprofile(self)
            self._slots.add(slot)

    def unwatch(self, slot: int) -> None:
        with self._lock:
            self._slots.discard(slot)
            current: object = threading.getprofile()
            if not self._slots and current is self:
                threading.setprofile(self._program_sets)

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Makes way, on the first call of a new thread, for what the program set and for our hook."""
        program_sets = self._program_sets
        sys.setprofile(program_sets)
        if not threading.current_thread().name.startswith(_EXPORTING_THREADS):
            core.watch_current_python_thread()
        if program_sets is not None:
            program_sets(frame, event, argument)

    def _after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        for slot in tuple(self._slots):
            self.unwatch(slot)
            core.stop_python_frames(slot)


_new_threads = _NewThreads()
