"""torch.profiler at work: started, marked, stopped and written as the Chrome trace that it makes.

torch has one slot for it in a process. Who starts a second session is not told: the sessions take each
other's events, and writing a trace of the one that lost them crashes. So a session looks whether the slot is
free before it takes it, and whether it still holds it before it writes.
"""

from __future__ import annotations

import itertools
import os
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from otel_torchprof.recorder.capture_options import CaptureOptions

_SLOT_TAKEN = "torch.profiler records already, and a process has one slot for it: stop that first"

_starting = threading.Lock()


def torch_profiler_records() -> bool:
    """Whether torch's own profiler has been started in this process."""
    from torch.autograd import profiler

    return bool(profiler._is_profiler_enabled)


class TorchProfilerError(RuntimeError):
    """torch.profiler cannot do this here and now; the message says why."""


class TraceLost(TorchProfilerError):
    """What was recorded is gone."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of a session: an event of its trace has this name, if it was seen on the calling thread."""

    name: str
    unix_ns: int  # by the wall clock, which is not quite the clock of the trace
    thread_id: int  # of the operating system
    thread_name: str


class TorchProfilerSession:
    """Records with torch.profiler, for every kind of device that this torch supports.

    All threads are recorded, but with `profile_memory` only the one that starts and what autograd does for
    it: torch.profiler does not see the memory of the others. With `with_modules` all Python calls are
    recorded, as with `with_stack`.
    """

    def __init__(self, options: CaptureOptions) -> None:
        import torch.profiler

        config = None if options.profile_memory else _all_threads()
        self._torch_profiler: Any = torch.autograd.profiler
        self._make_event: Any = torch._C._profiler._RecordFunctionFast
        self._profiler = torch.profiler._KinetoProfile(
            record_shapes=options.record_shapes,
            profile_memory=options.profile_memory,
            with_stack=options.with_stack or options.with_modules,
            with_modules=options.with_modules,
            experimental_config=config,
        )
        self._one_thread_only = config is None
        self._starting_thread = 0
        self._mark_numbers = itertools.count()
        self.mark_prefix = f"otel_torchprof.mark.{secrets.token_hex(4)}."
        """What the names of all marks begin with, and no other name does."""

    def start(self) -> None:
        """Begin to record.

        Raises:
            TorchProfilerError: another session records.
        """
        torch_profiler = self._torch_profiler
        # Whoever starts at the same moment, on another thread or in a signal handler, finds the slot taken.
        if not _starting.acquire(blocking=False):
            raise TorchProfilerError(_SLOT_TAKEN)
        try:
            if torch_profiler._is_profiler_enabled:
                raise TorchProfilerError(_SLOT_TAKEN)
            try:
                self._profiler.start()
            except BaseException:
                if torch_profiler._is_profiler_enabled:
                    torch_profiler._run_on_profiler_stop()
                raise
            self._starting_thread = threading.get_ident()
        finally:
            _starting.release()

    def mark(self) -> Mark:
        """Put a mark into the trace, at this moment on this thread."""
        mark = Mark(
            f"{self.mark_prefix}{next(self._mark_numbers)}",
            time.time_ns(),
            threading.get_native_id(),
            threading.current_thread().name,
        )
        with self._make_event(mark.name):
            pass
        return mark

    def record_ops(self, wanted: bool) -> None:
        """Leave out ops that begin from now on, or record them again."""
        import torch.profiler

        self._profiler.toggle_collection_dynamic(wanted, [torch.profiler.ProfilerActivity.CPU])

    def record_devices(self, wanted: bool) -> None:
        """Leave out what devices are given from now on, or record it again: torch does so for CUDA."""
        import torch.profiler

        self._profiler.toggle_collection_dynamic(wanted, [torch.profiler.ProfilerActivity.CUDA])

    def stop(self) -> None:
        """Stop recording.

        Raises:
            TraceLost: another session was started meanwhile and took what was recorded.
            TorchProfilerError: this thread cannot stop it.
        """
        if self._one_thread_only and threading.get_ident() != self._starting_thread:
            raise TorchProfilerError(
                "torch.profiler stops only on the thread that started it when it records memory: stop there"
            )
        is_recording = self._torch_profiler._is_profiler_enabled
        self._profiler.stop()
        results = self._profiler.profiler.kineto_results
        if not is_recording or results is None or results.trace_start_ns() == 0:
            raise TraceLost(
                "what torch.profiler recorded is lost: another session of it was started meanwhile, and a "
                "process has one slot for it: use one at a time"
            )

    def write_trace(self, path: Path) -> None:
        """Write what was recorded, after `stop()`.

        Raises:
            OSError: it cannot be written.
        """
        self._profiler.export_chrome_trace(os.fspath(path))
        if not path.is_file():
            raise OSError(f"torch.profiler wrote no trace to {path.parent}: is there space left?")


def _all_threads() -> Any:
    """The setting that has threads recorded which run already; None where torch has none."""
    from torch._C._profiler import _ExperimentalConfig

    try:
        return _ExperimentalConfig(profile_all_threads=True)
    except TypeError:  # torch < 2.7
        return None
