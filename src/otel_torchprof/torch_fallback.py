"""Recording through torch.profiler where our own recorder cannot: the same recordings by a longer way.

torch.profiler keeps what it records in memory of its own, without a bound. When it stops, its trace goes to
a temporary file that only its owner can reach, and comes back through the importer of such traces.
docs/torch-fallback.md says what gets lost on the way.
"""

from __future__ import annotations

import errno
import logging
import os
import tempfile
import threading
import weakref
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from otel_torchprof.recorder.capture_metadata import start_metadata, stop_metadata
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.step_details import NO_DETAILS, StepDetails
from otel_torchprof.recorder.torch_profiler import (
    Mark,
    TorchProfilerError,
    TorchProfilerSession,
    TraceLost,
)
from otel_torchprof.recording import Recording
from otel_torchprof.run_identity import read_run_identity
from otel_torchprof.torch_trace import MarkedStep, TracedSession, read_trace

_logger = logging.getLogger("otel_torchprof")

_DEFAULT_OPTIONS = CaptureOptions()


class TorchCapture:
    """Stands in for `Capture`: records all threads with torch.profiler between `start()` and `stop()`; once.

    With `profile_memory` only the thread that starts, which then is to stop it as well.

    One at a time, and none beside a torch.profiler of the program's own. One that is dropped, or still open
    when the interpreter exits, is stopped then. In a forked child it is inactive.

    Args:
        path: the `.tprof` file to save when it stops; None saves none.
        options: what to record. `counters` are not known to torch.profiler and left out; the bound on the
            size holds for the recording, not for what torch.profiler keeps until it stops.
        run_id: id of the run; None takes the launcher's, else a random one.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        options: CaptureOptions = _DEFAULT_OPTIONS,
        *,
        run_id: str | None = None,
    ) -> None:
        self.path = None if path is None else Path(path)
        self._options = options
        self._run_id = run_id
        self._session: _Session | None = None

    def start(self) -> None:
        """Begin to record.

        Raises:
            TorchProfilerError: a torch.profiler records already in this process.
            OSError: no file can be made at the path.
            RuntimeError: it was started before.
        """
        if self._session is not None:
            raise RuntimeError("a capture records once: make another")
        if self.path is not None:
            _require_writable(self.path)
        if self._options.counters:
            _logger.warning("otel-torchprof: counters are not recorded: torch.profiler knows none")
        session = _Session(self.path, self._options, self._run_id)
        session.start()
        self._session = session
        weakref.finalize(self, session.close)

    def begin_step(self, number: int = -1, details: StepDetails = NO_DETAILS) -> None:
        """As `Capture.begin_step`."""
        if self._session is not None and self._session.active:
            self._session.begin_step(number, details)

    def end_step(self) -> None:
        """Ends the open step; does nothing when there is none."""
        if self._session is not None and self._session.active:
            self._session.end_step(self._session.mark())

    def add_metadata(self, metadata: Mapping[str, object]) -> None:
        """As `Capture.add_metadata`."""
        if self._session is not None and self._session.active:
            self._session.metadata.update(metadata)

    def record_ops(self, wanted: bool) -> None:
        """As `Capture.record_ops`."""
        if self._session is not None and self._session.active:
            self._session.record_ops(wanted)

    def record_devices(self, wanted: bool) -> None:
        """As `Capture.record_devices`."""
        if self._session is not None and self._session.active:
            self._session.record_devices(wanted)

    def stop(self) -> Recording:
        """Stops recording and returns the recording; again, it returns the same.

        Returns an empty recording when it was never started, and in a forked child.

        Raises:
            TorchProfilerError: another torch.profiler, started meanwhile, took what was recorded; or it
                records memory and was started on another thread.
            OSError: there is no room for the trace, or the recording cannot be saved.
        """
        if self._session is None or self._session.forked:
            return Recording.empty()
        return self._session.finish()


class _Session:
    """The running half of a capture: all that stopping needs, so that it can outlive the capture's object."""

    def __init__(self, path: Path | None, options: CaptureOptions, run_id: str | None) -> None:
        self._path = path
        self._options = options
        self._run_id = run_id
        self._process_id = os.getpid()
        self._profiler = TorchProfilerSession(options)
        self.metadata = start_metadata(read_run_identity(os.environ, run_id), asdict(options))
        self._steps: list[MarkedStep] = []
        # A signal handler may step or stop while its own thread does.
        self._lock = threading.RLock()
        self._begin: Mark | None = None
        self._end: Mark | None = None
        self._lost: TraceLost | None = None
        self._recording: Recording | None = None
        self._is_reading = False

    @property
    def forked(self) -> bool:
        return os.getpid() != self._process_id

    @property
    def active(self) -> bool:
        return self._begin is not None and self._end is None and not self.forked

    def start(self) -> None:
        self._profiler.start()
        self._begin = self.mark()

    def mark(self) -> Mark:
        return self._profiler.mark()

    def begin_step(self, number: int, details: StepDetails) -> None:
        with self._lock:
            begin = self.mark()
            self.end_step(begin)
            self._steps.append(MarkedStep(begin, number, details))

    def end_step(self, end: Mark) -> None:
        with self._lock:
            if self._steps and self._steps[-1].end is None:
                self._steps[-1].end = end

    def record_ops(self, wanted: bool) -> None:
        self._profiler.record_ops(wanted)

    def record_devices(self, wanted: bool) -> None:
        self._profiler.record_devices(wanted)

    def finish(self) -> Recording:
        with self._lock:
            self._stop()
            if self._lost is not None:
                raise self._lost
            if self._is_reading:
                raise TorchProfilerError("this interrupts the stopping of the profile: try again later")
            if self._recording is None:
                self._is_reading = True
                try:
                    self._recording = self._read()
                except Exception as error:  # Kineto writes a trace only once
                    what = f"{type(error).__name__}: {error}"
                    self._lost = TraceLost(f"what torch.profiler recorded could not be read back: {what}")
                    raise
                finally:
                    self._is_reading = False
                if self._path is not None:
                    self._recording.save(self._path)
            return self._recording

    def close(self) -> None:
        """What is left to do for a capture that nobody stopped."""
        if self.active:
            with failures.guard("a capture was not saved"):
                if self._path is None:
                    self._stop()
                else:
                    self.finish()

    def _stop(self) -> None:
        if self._end is None:
            end = self.mark()
            try:
                self._profiler.stop()
            except TraceLost as error:
                self._lost = error
            self._end = end

    def _read(self) -> Recording:
        assert self._begin is not None
        assert self._end is not None
        session = TracedSession(
            mark_prefix=self._profiler.mark_prefix,
            begin=self._begin,
            end=self._end,
            steps=self._steps,
            metadata={
                **self.metadata,
                **stop_metadata(read_run_identity(os.environ, self._run_id)),
                "recorder": "torch.profiler",
            },
            options=self._options,
        )
        with tempfile.TemporaryDirectory(prefix="otel-torchprof-") as directory:
            trace = Path(directory) / "trace.json"
            self._profiler.write_trace(trace)
            return read_trace(trace, session)


def _require_writable(path: Path) -> None:
    """Say at the start, not after the work, that there can be no file at `path`."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
