"""The bounded queue between a training loop and the network, and the one thread that empties it.

`submit` never waits. When the queue is full the newest recording is dropped: what is already queued stays
whole and in order. The thread is a daemon, started by the first submission; where threads can no longer
start (CPython 3.12 and later, at exit) `flush` and `shutdown` do the work themselves.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from opentelemetry.instrumentation.utils import suppress_instrumentation

from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.telemetry.after_fork import rebuild_after_fork
from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.destinations import Destination, ExportWork, TimeLeft
from otel_torchprof.telemetry.reason_log import ReasonLog
from otel_torchprof.telemetry.send_result import ENCODE_FAILED, QUEUE_FULL, SHUT_DOWN

_logger = logging.getLogger(__name__)

_MAX_JITTER_S = 10.0
_JITTER_S_PER_RANK = 0.05
# How long a cancelled export may take to notice, beyond the time that `shutdown` was given.
_CANCEL_GRACE_S = 0.5


def max_jitter_s(world_size: int) -> float:
    """Over how many seconds the ranks of a job should spread what they all have to send at the same step."""
    return min(_MAX_JITTER_S, _JITTER_S_PER_RANK * world_size) if world_size > 1 else 0.0


class ExportPipeline:
    """Takes the spans of recordings to their destinations in the background. Nothing of it raises.

    At most `max_recordings` and `max_bytes` are held, the one being exported included; a recording larger
    than `max_bytes` is taken where it is the only one. Before each recording the thread waits up to
    `max_jitter_s`, unless somebody waits in `flush` or `shutdown`.
    """

    def __init__(
        self,
        destinations: Sequence[Destination],
        counters: ExportCounters,
        *,
        max_recordings: int = 8,
        max_bytes: int = 512 << 20,
        max_jitter_s: float = 0.0,
        random_fraction: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counters = counters
        self._destinations = tuple(destinations)
        self._max_recordings = max_recordings
        self._max_bytes = max_bytes
        self._max_jitter_s = max_jitter_s
        self._random_fraction = random_fraction
        self._clock = clock
        self._log = ReasonLog(_logger)
        self._closing = False
        self._closed = False
        self._left_behind = 0
        self._deadline: float | None = None
        # The address and the cause where an export failed last; fit for a log.
        self.last_failure = ""
        self._start_empty()
        rebuild_after_fork(self)

    def submit(self, work: ExportWork) -> bool:
        """Queue `work`; False (and a count) when it was dropped. Never waits."""
        size_bytes = work.size_bytes
        with self._changed:
            held = len(self._queue) + self._in_progress
            too_many_bytes = self._held_bytes + size_bytes > self._max_bytes
            if self._closing:
                reason = SHUT_DOWN
            elif held and (held >= self._max_recordings or too_many_bytes):
                reason = QUEUE_FULL
            else:
                self._queue.append((work, size_bytes))
                self._held_bytes += size_bytes
                self._accepted += 1
                self._start_worker()
                self._changed.notify_all()
                return True
        self.counters.add_dropped_recordings(reason)
        self._log.warn(reason, f"a recording was not exported ({reason}): {held} are waiting to be sent")
        return False

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was submitted before has been tried; False when `timeout_s` did not suffice."""
        deadline = self._clock() + timeout_s
        if threading.current_thread() is self._worker:
            return False
        with self._changed:
            target = self._accepted
            self._waiting += 1
            self._changed.notify_all()
        try:
            if self._worker is None:
                self._drain(lambda: max(deadline - self._clock(), 0.0))
            return self._wait_until(lambda: self._finished >= target, deadline)
        finally:
            with self._changed:
                self._waiting -= 1

    def shutdown(self, timeout_s: float) -> bool:
        """Export what is queued and close the destinations in `timeout_s` or a little over; drop the rest.

        True when all went out in time. Later calls only wait for the first; later submissions are dropped.
        """
        deadline = self._clock() + timeout_s
        with self._changed:
            is_first = not self._closing
            self._closing = True
            self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
            self._changed.notify_all()
        if threading.current_thread() is self._worker:
            return False
        if self._worker is None and not self._closed:
            self._drain(self._time_left)
            self._close_destinations()
        in_time = self._wait_until(lambda: self._closed, deadline)
        if is_first:
            self._left_behind = self._give_up(in_time)
            self.counters.add_dropped_recordings(SHUT_DOWN, self._left_behind)
        return in_time and not self._left_behind

    def _give_up(self, in_time: bool) -> int:
        """Drop what is still queued and end what is in progress; the number of recordings lost."""
        with self._changed:
            lost = len(self._queue)
            self._queue.clear()
        if not in_time:
            for destination in self._destinations:
                destination.cancel()
            if not self._wait_until(lambda: self._closed, self._clock() + _CANCEL_GRACE_S):
                lost += self._in_progress  # it hangs, and has not counted its spans
        return lost

    def _start_empty(self) -> None:
        self._changed = threading.Condition()
        self._queue: deque[tuple[ExportWork, int]] = deque()
        self._held_bytes = 0
        self._in_progress = 0
        self._accepted = 0
        self._finished = 0
        self._waiting = 0
        self._deadline = None
        self._worker: threading.Thread | None = None

    def rebuild_in_child(self) -> None:
        """Start empty in a forked child: what is queued is the parent's to send."""
        self._start_empty()

    def _start_worker(self) -> None:
        if self._worker is not None:
            return
        worker = threading.Thread(target=self._run, name=f"{OWN_THREAD_PREFIX}export", daemon=True)
        try:
            worker.start()
        except RuntimeError:
            return  # no more threads: flush and shutdown drain the queue
        self._worker = worker

    def _run(self) -> None:
        while self._wait_for_work():
            self._drain(self._time_left, one=True)
        self._close_destinations()

    def _wait_for_work(self) -> bool:
        """Wait for something to export and for the jitter; False when there will be nothing more."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closing)
            if not self._queue:
                return False
            jitter_s = self._max_jitter_s * self._random_fraction()
            if jitter_s:
                self._changed.wait_for(lambda: self._waiting or self._closing, jitter_s)
            return True

    def _drain(self, time_left: TimeLeft, *, one: bool = False) -> None:
        """Export the oldest recording in the queue, or all of them while time is left."""
        while True:
            with self._changed:
                if not self._queue:
                    return
                work, size_bytes = self._queue.popleft()
                self._in_progress += 1
            self._export(work, time_left)
            with self._changed:
                self._in_progress -= 1
                self._held_bytes -= size_bytes
                self._finished += 1
                self._changed.notify_all()
            left_s = time_left()
            if one or (left_s is not None and left_s <= 0):
                return

    def _export(self, work: ExportWork, time_left: TimeLeft) -> None:
        failed = arrived = False
        with suppress_instrumentation():  # sending spans must not make spans
            for destination in self._destinations:
                try:
                    result = destination.export(work, time_left)
                    arrived |= result.complete
                    if result.cause and not result.complete:
                        self.last_failure = f"{destination.address}: {result.cause}"
                except Exception as error:
                    failed = True
                    what = f"{type(error).__name__}: {error}"
                    self._log.warn(ENCODE_FAILED, f"the spans of a recording could not be made: {what}")
        if failed:
            self.counters.add_dropped_recordings(ENCODE_FAILED)
        else:
            self.counters.add_exported_recording()
        if arrived:
            work.delivered()

    def _close_destinations(self) -> None:
        for destination in self._destinations:
            try:
                destination.close()
            except Exception as error:
                self._log.warn("close", f"a destination did not close: {type(error).__name__}: {error}")
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _time_left(self) -> float | None:
        deadline = self._deadline
        return None if deadline is None else max(deadline - self._clock(), 0.0)

    def _wait_until(self, condition: Callable[[], bool], deadline: float) -> bool:
        with self._changed:
            return self._changed.wait_for(condition, max(deadline - self._clock(), 0.0))
