"""One recording of the ops of this process, from start to stop."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from otel_torchprof._native import core
from otel_torchprof.recorder.bridge import Bridge, load_bridge
from otel_torchprof.recorder.capture_metadata import start_metadata, stop_metadata
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.memory_budget import MemoryBound, memory_budget
from otel_torchprof.recorder.sources import Source, SourceTarget, wanted_sources
from otel_torchprof.recorder.sources.group import SourceGroup
from otel_torchprof.recorder.step_details import NO_DETAILS, StepDetails
from otel_torchprof.recording import Recording
from otel_torchprof.run_identity import RunIdentity, read_run_identity

_DEFAULT_OPTIONS = CaptureOptions()

# ThreadRecord::name of native/core/layout.h.
_MAX_THREAD_NAME_BYTES = 39


class Capture:
    """Records every op of every thread between `start()` and `stop()`; once.

    Up to four record at the same time, each into a recording of its own. A capture that is dropped, or still
    open when the interpreter exits, is stopped then, so that its file is complete. In a forked child it is
    inactive: a child records nothing until it starts a capture itself.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        options: CaptureOptions = _DEFAULT_OPTIONS,
        *,
        metadata: Mapping[str, object] | None = None,
        run_id: str | None = None,
        sources: Iterable[Source] = (),
    ) -> None:
        """Prepares a capture; nothing is recorded and no file made before `start()`.

        Args:
            path: the `.tprof` file to record into; None records into memory.
            options: what to record beside the ops, and the bound on the recording.
            metadata: JSON values to keep with the recording, beside those of `capture_metadata`.
            run_id: id of the run; None takes the launcher's, else a random one.
            sources: what to record beside what `options` name; none of them started.

        Raises:
            TypeError, ValueError: `metadata` cannot be written as JSON.
        """
        self.path = None if path is None else Path(path)
        self._options = options
        self._metadata = _to_json(dict(metadata or {}))
        self._run_id = run_id
        self._sources = tuple(sources)
        self._session: _Session | None = None
        self._finalizer: weakref.finalize[[], Capture] | None = None

    @property
    def active(self) -> bool:
        """Whether it is recording, in this process."""
        return self._session is not None and self._session.active

    @property
    def recorded(self) -> int:
        """Events recorded so far."""
        return 0 if self._session is None else self._session.native.recorded

    @property
    def drops(self) -> dict[str, int]:
        """What could not be recorded so far: counts by reason."""
        return {} if self._session is None else self._session.native.drops()

    def start(self) -> None:
        """Begins to record.

        Raises:
            BridgeUnavailable: ops cannot be recorded with this torch on this machine.
            OSError: the file cannot be made, or there is no memory for the recording.
            RuntimeError: it was started before, or four captures record already.
            ValueError: there is a null character in the path.
        """
        if self._session is not None:
            raise RuntimeError("a capture records once: make another")
        bridge = load_bridge()
        bound = memory_budget.apply(self._options.buffer_size_bytes)
        native = core.Capture(self.path, self._options.buffer_size_bytes)
        session = _Session(native, bridge, self._run_id, self.path)
        session.start(self._options, self._metadata, self._sources, bound)
        self._session = session
        self._finalizer = weakref.finalize(self, session.stop)

    def begin_step(self, number: int = -1, details: StepDetails = NO_DETAILS) -> None:
        """Begins a step on the calling thread and ends the open one; does nothing when not recording.

        Args:
            number: of the step; -1 = none.
            details: what else is known of it.
        """
        if self._session is not None and self._session.active:
            self._session.sources.step_begins()
            self._session.native.begin_step(number, *details)

    def end_step(self) -> None:
        """Ends the open step; does nothing when there is none."""
        if self._session is not None and self._session.active:
            self._session.native.end_step()

    def add_context(self, context: bytes, trace_flags: int, *, is_root: bool, links: bytes) -> None:
        """Names the span that the innermost event of the calling thread, which has just begun, belongs under.

        Does nothing when not recording.

        Args:
            context: trace id and span id, 24 bytes.
            trace_flags: of that span.
            is_root: the event itself is that span, the root of its trace.
            links: further spans, 24 bytes each.
        """
        if self._session is not None and self._session.active:
            self._session.native.add_context(context, trace_flags, is_root, links)

    def add_metadata(self, metadata: Mapping[str, object]) -> None:
        """Keeps JSON values with the recording; does nothing when not recording.

        Raises:
            TypeError, ValueError: they cannot be written as JSON.
        """
        if self._session is not None and self._session.active:
            self._session.native.add_metadata(_to_json(dict(metadata)))

    def record_ops(self, wanted: bool) -> None:
        """Leaves out ops and user scopes that begin from now on, or records them again.

        Raises:
            BridgeUnavailable: torch refused it.
        """
        if self._session is not None and self._session.active:
            self._session.record_ops(wanted)

    def record_devices(self, wanted: bool) -> None:
        """Leaves out what devices are given from now on, or records it again, where they are recorded.

        Raises:
            RuntimeError: what records them refused it; it says what to do.
        """
        if self._session is not None and self._session.active:
            self._session.native.record_device(wanted)

    def halt(self) -> None:
        """Stops recording without making the recording; again, it does nothing.

        Raises:
            OSError: the recording was kept in memory (see `docs/recording-format.md`) and cannot be saved.
        """
        if self._finalizer is not None:
            self._finalizer()

    def stop(self) -> Recording:
        """Stops recording and returns the recording; again, it makes it again.

        Returns an empty recording when it was never started, and in a forked child.
        """
        self.halt()
        if self._session is None or self._session.forked:
            return Recording.empty()
        return Recording(self._session.native.recording())


class _Session:
    """The running half of a capture: all that stopping needs, so that it can outlive the capture's object."""

    def __init__(self, native: core.Capture, bridge: Bridge, run_id: str | None, path: Path | None) -> None:
        self.native = native
        self._bridge = bridge
        self._run_id = run_id
        # Where the file system cannot promise its blocks, the recording is in memory and saved at the end.
        self._save_path = path if native.fallback_reason else None
        self._process_id = os.getpid()
        self._slot = -1
        self._options = CaptureOptions()
        self.sources = SourceGroup(())
        # A signal handler may stop it while its own thread does.
        self._stopping = threading.RLock()

    @property
    def forked(self) -> bool:
        return os.getpid() != self._process_id

    @property
    def active(self) -> bool:
        return self._slot >= 0 and not self.forked

    def start(
        self,
        options: CaptureOptions,
        metadata: bytes,
        sources: Iterable[Source],
        bound: MemoryBound | None,
    ) -> None:
        self._options = options
        self.sources = SourceGroup((*wanted_sources(options), *sources))
        try:
            self.sources.prepare()  # before the recording begins: it may take a while
            self._slot = self.native.start()
            self.native.add_metadata(_to_json(start_metadata(self._identity(), asdict(options))))
            if bound is not None:
                self.native.add_metadata(_to_json({"memory_limit": bound.metadata()}))
            self.native.add_metadata(metadata)
            self.record_ops(True)
            self.sources.start(SourceTarget(self.native, self._slot, self._bridge))
            if self.sources.states:
                self.native.add_metadata(_to_json({"sources": self.sources.states}))
        except BaseException:
            self.stop()
            raise

    def record_ops(self, wanted: bool) -> None:
        with self._stopping:
            if self._slot < 0:
                return
            if wanted:
                self._bridge.enable(
                    self._slot,
                    record_inputs=self._options.record_shapes,
                    record_identities=self._options.profile_memory,
                )
            else:
                self._bridge.disable(self._slot)

    def stop(self) -> None:
        if self.forked:
            return
        with self._stopping:
            states = dict(self.sources.states)
            self.sources.stop()
            slot, self._slot = self._slot, -1
            if slot < 0:
                return
            self._bridge.disable(slot)
            try:
                self._name_threads()
                self.native.add_metadata(_to_json(stop_metadata(self._identity())))
                if self.sources.states != states:
                    self.native.add_metadata(_to_json({"sources": self.sources.states}))
            finally:
                self.native.stop()
            if self._save_path is not None:
                self.native.recording().save(self._save_path)

    def _name_threads(self) -> None:
        # The system calls them all after the program, as Python passes it no names before 3.14.
        for thread in threading.enumerate():
            if thread.native_id is not None:
                name = thread.name.encode(errors="replace")[:_MAX_THREAD_NAME_BYTES]
                self.native.name_thread(thread.native_id, name.decode(errors="ignore"))

    def _identity(self) -> RunIdentity:
        return read_run_identity(os.environ, self._run_id)


def _to_json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
