"""The timer that collects metrics and exports them, on a thread of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.telemetry.after_fork import rebuild_after_fork, whole_in_children
from otel_torchprof.telemetry.metric_stream import MetricStream
from otel_torchprof.telemetry.reason_log import ReasonLog
from otel_torchprof.telemetry.work_time import work_time

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.resources import Resource

    from otel_torchprof.metrics.families import MetricFamily

_logger = logging.getLogger(__name__)

# How long an export that was cancelled may take to notice, beyond the time that `shutdown` was given.
_CANCEL_GRACE_S = 0.5

# Streams of before a fork. Destructors of their exporters would talk to threads and peers of the parent.
_of_the_parent: list[object] = []


class MetricExport:
    """Exports what `collect` returns every `interval_s`, and once more at `shutdown`. Raises nothing.

    A forked child has one that is not started. Where threads can no longer start (CPython 3.12 and later, at
    exit) `flush` and `shutdown` do the work themselves.

    Args:
        collect: gives all metrics as they stand.
        make_exporters: called once, on the thread that exports.
        resource: asked for at each export: the rank may become known late.
        interval_s: seconds between two exports.
        timeout_s: seconds that exporters are told they may take.
        first_share: of the interval, after which the first export is made: ranks that begin together should
            not export together.
    """

    def __init__(
        self,
        collect: Callable[[], Sequence[MetricFamily]],
        make_exporters: Callable[[], Sequence[MetricExporter]],
        resource: Callable[[], Resource],
        *,
        interval_s: float,
        timeout_s: float,
        first_share: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._collect = collect
        self._make_exporters = make_exporters
        self._resource = resource
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._first_share = first_share
        self._clock = clock
        self._unix_ns = unix_ns
        self._log = ReasonLog(_logger)
        self._start_over()
        rebuild_after_fork(self)

    def rebuild_in_child(self) -> None:
        """Forget the thread, the exporters and what they had: all of it is the parent's."""
        _of_the_parent.append(self._streams)
        self._start_over()

    def _start_over(self) -> None:
        self._streams: list[MetricStream] | None = None
        self._changed = threading.Condition()
        self._worker: threading.Thread | None = None
        self._paused = True  # until it is started
        self._closing = False
        self._closed = False
        self._deadline: float | None = None
        self._requested = 0
        self._finished = 0
        self._arrived = True  # the last export did

    @property
    def is_started(self) -> bool:
        """Whether exports are made on the timer."""
        return self._worker is not None and not self._paused and not self._closing

    def start(self) -> None:
        """Begin to export, or go on after a `pause`. Does nothing after `shutdown`."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()
            if self._worker is not None or self._closing:
                return
            worker = threading.Thread(target=self._run, name=f"{OWN_THREAD_PREFIX}metrics", daemon=True)
            try:
                worker.start()
            except RuntimeError:
                return  # no more threads
            self._worker = worker

    def pause(self) -> None:
        """Export once more, in the background, and then no more until `start`."""
        with self._changed:
            if not self._paused:
                self._paused = True
                self._requested += 1
                self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Export now; False when that was not done in `timeout_s` or did not arrive."""
        if threading.current_thread() is self._worker:
            return False
        with self._changed:
            self._requested += 1
            target = self._requested
            self._changed.notify_all()
            if self._worker is not None:
                return self._changed.wait_for(lambda: self._finished >= target, timeout_s) and self._arrived
            self._finished = target
        return self._export(min(timeout_s, self._timeout_s))

    def shutdown(self, timeout_s: float) -> bool:
        """Export once more and close; False when that did not arrive in `timeout_s`. Idempotent."""
        deadline = self._clock() + timeout_s
        with self._changed:
            self._closing = True
            self._deadline = deadline
            self._changed.notify_all()
            worker = self._worker
        if worker is threading.current_thread():
            return False
        if worker is None:
            if not self._closed:
                self._finish()
        elif not self._wait_until_closed(timeout_s):
            for stream in self._streams or ():
                stream.close()
            self._wait_until_closed(_CANCEL_GRACE_S)
            self._log.warn(
                "shutdown",
                f"the last metrics were not exported within {timeout_s:.1f} s ({self._last_failure()}); "
                "OTEL_EXPORTER_OTLP_ENDPOINT says where to send, OTEL_METRICS_EXPORTER=none sends none",
            )
            return False
        else:
            worker.join(_CANCEL_GRACE_S)  # it has nothing more to do
        return self._arrived

    def _run(self) -> None:
        self._opened_streams()
        next_export = self._clock() + self._interval_s * self._first_share
        while True:
            with self._changed:
                if not self._closing and not self._is_asked():
                    self._changed.wait(None if self._paused else max(next_export - self._clock(), 0.0))
                if self._closing:
                    break
                requested = self._requested
                is_due = self._is_asked() or (not self._paused and self._clock() >= next_export)
            if is_due:
                self._export(self._timeout_s)
                # From now: exports missed while one hung are not made up for.
                next_export = self._clock() + self._interval_s
            with self._changed:
                self._finished = requested
                self._changed.notify_all()
        self._finish()

    def _is_asked(self) -> bool:
        return self._requested > self._finished

    def _finish(self) -> None:
        if not self._paused or self._is_asked():
            deadline = self._deadline
            left_s = self._timeout_s if deadline is None else max(deadline - self._clock(), 0.0)
            self._export(min(left_s, self._timeout_s))
        for stream in self._streams or ():
            stream.close()
        with self._changed:
            self._closed = True
            self._finished = self._requested
            self._changed.notify_all()

    def _export(self, timeout_s: float) -> bool:
        with work_time.measured():
            return self._collect_and_export(timeout_s)

    def _collect_and_export(self, timeout_s: float) -> bool:
        streams = self._opened_streams()
        try:
            collected_ns = self._unix_ns()
            families = self._collect()
            resource = self._resource()
        except Exception as error:
            self._log.warn("collect", f"metrics were not collected: {type(error).__name__}: {error}")
            self._arrived = False
            return False
        results = [stream.export(families, resource, collected_ns, timeout_s) for stream in streams]
        self._arrived = all(results)
        return self._arrived

    def _opened_streams(self) -> list[MetricStream]:
        if self._streams is None:
            try:
                with whole_in_children():  # exporters are imported for it
                    self._streams = [MetricStream(exporter) for exporter in self._make_exporters()]
            except Exception as error:
                self._log.warn("exporters", f"metrics are not exported: {type(error).__name__}: {error}")
                self._streams = []
        return self._streams

    def _last_failure(self) -> str:
        return next((one.last_failure for one in self._streams or () if one.last_failure), "no answer yet")

    def _wait_until_closed(self, timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._closed, timeout_s)
