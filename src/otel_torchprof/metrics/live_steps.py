"""Steps of the program as they end: durations, waits for data, exemplars of those whose spans arrived."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from otel_torchprof.metrics.families import Exemplar, HistogramPoint, MetricFamily, NumberPoint
from otel_torchprof.metrics.histogram import Histogram
from otel_torchprof.semconv_metrics import (
    DATALOADER_WAIT,
    METRIC_BY_NAME,
    STEP_DURATION,
    STEP_LAST_TIMESTAMP,
    STEP_NUMBER,
    STEP_PHASE,
    STEP_SKIPPED,
)

TRAIN, EVAL, INFER = "train", "eval", "infer"

# Values wait in a list: to count one at a time costs more than a short step may.
_MAX_WAITING = 1024
# Recorded steps whose spans are on their way.
_MAX_EXPECTED = 256


@dataclass(frozen=True, slots=True)
class _Measured:
    phase: str
    duration_s: float
    ended_unix_ns: int


class LiveSteps:
    """Counts steps; any thread may call any method.

    The phase of a step is `train` when a backward began in it; without one it is `infer` in a program that
    has had none yet, else `eval`. A wait for data has the phase of what the batch was used for, which shows
    when the next one is waited for or the step ends.

    Args:
        backwards: how many backwards have begun in the process.
        skipped: how many steps a gradient scaler skipped.
        clock_ns: any steady clock.
        unix_ns: the time of day.
    """

    def __init__(
        self,
        backwards: Callable[[], int],
        skipped: Callable[[], int],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._backwards = backwards
        self._skipped = skipped
        self._clock_ns = clock_ns
        self._unix_ns = unix_ns
        self.start_over()

    def start_over(self) -> None:
        """Count from zero, with a lock of our own: for a forked child."""
        self._lock = threading.RLock()  # a signal handler may step while its own thread counts
        self._start_unix_ns = self._unix_ns()
        self._durations = _Durations(STEP_DURATION)
        self._waits = _Durations(DATALOADER_WAIT)
        self._began_ns: int | None = None
        self._backwards_at_begin = 0
        self._skipped_at_start = self._skipped()
        self._number: int | None = None
        self._last_unix_ns: int | None = None
        self._pending_wait_s: float | None = None
        self._backwards_at_wait = 0
        self._expected: OrderedDict[int, _Measured | None] = OrderedDict()
        self._exemplars: dict[tuple[str, int], Exemplar] = {}

    def pause(self) -> None:
        """Count no step of which a part passes from now on until `step_began`; no more of it is to come."""
        with self._lock:
            self._settle_wait()
            self._began_ns = None

    def step_began(self, number: int) -> None:
        """Step `number` begins, or a part of it is over already: it is counted only if it is followed whole.

        The first boundary ends a step that began before anybody looked, with the set-up of the program in it.
        """
        with self._lock:
            self._number = number

    def boundary(self, number: int) -> None:
        """The step before ends and step `number` begins."""
        now_ns, unix_ns = self._clock_ns(), self._unix_ns()
        with self._lock:
            if self._began_ns is not None:
                phase = self._phase(self._backwards_at_begin)
                duration_s = (now_ns - self._began_ns) / 1e9
                self._durations.add(phase, duration_s)
                if self._number is not None and self._number in self._expected:
                    self._expected[self._number] = _Measured(phase, duration_s, unix_ns)
            self._settle_wait()
            self._began_ns = now_ns
            self._backwards_at_begin = self._backwards()
            self._number = number
            self._last_unix_ns = unix_ns

    def waited(self, wait_ns: int | None) -> None:
        """A wait for a batch ended; None where there was no further batch."""
        with self._lock:
            self._settle_wait()
            if wait_ns is not None:
                self._pending_wait_s = wait_ns / 1e9
                self._backwards_at_wait = self._backwards()

    def expect_spans(self, number: int) -> None:
        """Step `number`, which begins now, is recorded and its spans are wanted."""
        with self._lock:
            self._expected[number] = None
            if len(self._expected) > _MAX_EXPECTED:
                self._expected.popitem(last=False)

    def spans_delivered(self, number: int, trace_id: int, span_id: int) -> None:
        """The spans of step `number` arrived, under this root."""
        with self._lock:
            measured = self._expected.pop(number, None)
            if measured is None:
                return
            bounds = METRIC_BY_NAME[STEP_DURATION].bounds
            bucket = int(np.searchsorted(bounds, measured.duration_s, side="left"))
            self._exemplars[measured.phase, bucket] = Exemplar(
                measured.duration_s,
                measured.ended_unix_ns,
                trace_id.to_bytes(16, "big"),
                span_id.to_bytes(8, "big"),
            )

    def families(self) -> list[MetricFamily]:
        """Everything counted so far."""
        with self._lock:
            start_ns = self._start_unix_ns
            durations = self._durations.family(start_ns)
            points = [replace(point, exemplars=self._exemplars_of(point)) for point in durations]
            skipped = self._skipped() - self._skipped_at_start
            families = [
                MetricFamily(METRIC_BY_NAME[STEP_DURATION], points),
                MetricFamily(METRIC_BY_NAME[DATALOADER_WAIT], self._waits.family(start_ns)),
                _number(STEP_SKIPPED, skipped, start_ns),
            ]
            if self._number is not None:
                families.append(_number(STEP_NUMBER, self._number, start_ns))
            if self._last_unix_ns is not None:
                families.append(_number(STEP_LAST_TIMESTAMP, self._last_unix_ns / 1e9, start_ns))
            return families

    def _phase(self, backwards_before: int) -> str:
        backwards = self._backwards()
        if backwards > backwards_before:
            return TRAIN
        return EVAL if backwards else INFER

    def _settle_wait(self) -> None:
        wait_s, self._pending_wait_s = self._pending_wait_s, None
        if wait_s is not None:
            self._waits.add(self._phase(self._backwards_at_wait), wait_s)

    def _exemplars_of(self, point: HistogramPoint) -> list[Exemplar]:
        phase = point.attributes[STEP_PHASE]
        return [exemplar for (of, _bucket), exemplar in sorted(self._exemplars.items()) if of == phase]


class _Durations:
    """Distributions by phase."""

    def __init__(self, name: str) -> None:
        self._bounds = METRIC_BY_NAME[name].bounds
        self._histograms: dict[str, Histogram] = {}
        self._waiting: dict[str, list[float]] = {}

    def add(self, phase: str, duration_s: float) -> None:
        waiting = self._waiting.setdefault(phase, [])
        waiting.append(duration_s)
        if len(waiting) >= _MAX_WAITING:
            self._count(phase)

    def family(self, start_unix_ns: int) -> Sequence[HistogramPoint]:
        for phase in self._waiting:
            self._count(phase)
        return [
            histogram.point({STEP_PHASE: phase}, start_unix_ns)
            for phase, histogram in self._histograms.items()
        ]

    def _count(self, phase: str) -> None:
        values, self._waiting[phase] = self._waiting[phase], []
        if values:
            histogram = self._histograms.get(phase)
            if histogram is None:
                histogram = self._histograms[phase] = Histogram(self._bounds, exponential=True)
            histogram.add_many(np.array(values, dtype=np.float64))


def _number(name: str, value: int | float, start_unix_ns: int) -> MetricFamily:
    return MetricFamily(METRIC_BY_NAME[name], [NumberPoint({}, value, start_unix_ns)])
