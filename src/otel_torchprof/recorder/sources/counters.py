"""Counters of the processor and the kernel: perf events of every thread, over steps and user spans."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable

if TYPE_CHECKING:
    from otel_torchprof._native import core
    from otel_torchprof.recorder.capture_options import CounterScope

_WAY_OUT = "OTEL_PYTHON_TORCHPROF_COUNTERS, or `counters` of a profile, names them"


class Counters(Source):
    """Counts perf events. One that the machine refuses is left out, and the others count.

    The recording's metadata say under `counters` what became of each: `on`, `on: ` and what it counts less
    than asked for, or `off: ` and why.

    Args:
        names: of events, as `perf list` has them.
        scope: "span" counts over steps, threads and user spans, "op" over each op too.
    """

    name = "counters"

    def __init__(self, names: Sequence[str], scope: CounterScope) -> None:
        self._names = list(names)
        self._scope = scope
        self._capture: core.Capture | None = None

    def start(self, target: SourceTarget) -> None:
        """Begins to count.

        Raises:
            SourceUnavailable: none of the counters counts here.
        """
        _name_own_threads()
        states = target.capture.start_counters(self._names, self._scope == "op")
        metadata = {name: _state(counts, remark) for name, counts, remark in states}
        target.capture.add_metadata(json.dumps({"counters": metadata}).encode())
        refused = [f"{name}: {remark}" for name, counts, remark in states if not counts]
        if len(refused) == len(states):
            raise SourceUnavailable(f"{'; '.join(refused)}; {_WAY_OUT}")
        self._capture = target.capture
        if refused:
            failures.report(
                "some counters do not count", SourceUnavailable(f"{'; '.join(refused)}; {_WAY_OUT}")
            )

    def stop(self) -> None:
        """Reads the counters for the last time."""
        if self._capture is not None:
            self._capture.stop_counters()
            self._capture = None


def _name_own_threads() -> None:
    """Tells the system the names of our threads, by which the core knows them; Python before 3.14 does not.

    To the core they begin with `torchprof-`, as the system keeps 15 bytes of a name. One that begins later
    is taken for the program's.
    """
    for thread in threading.enumerate():
        if thread.native_id is not None and thread.name.startswith(OWN_THREAD_PREFIX):
            with contextlib.suppress(OSError):  # it has just ended, or the process may not write there
                Path(f"/proc/self/task/{thread.native_id}/comm").write_text(thread.name.removeprefix("otel-"))


def _state(counts: bool, remark: str) -> str:
    state = "on" if counts else "off"
    return f"{state}: {remark}" if remark else state
