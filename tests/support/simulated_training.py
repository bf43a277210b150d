"""A training on several devices as its metrics show it, at any time of its run, with faults to look for.

Metrics of kernels, devices and collectives need hardware that tests lack. All of `semconv_metrics` is there;
counters follow closed forms, so that what a query must return can be computed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from otel_torchprof.metrics.families import (
    Attributes,
    Exemplar,
    HistogramPoint,
    MetricFamily,
    NumberPoint,
    Point,
)
from otel_torchprof.semconv_metrics import (
    COLLECTIVE_GROUP,
    COLLECTIVE_NAME,
    COLLECTIVE_WAIT,
    CPU_COUNTER,
    CUDA_DEVICE_INDEX,
    DATALOADER_WAIT,
    DEVICE_BUSY_TIME,
    DEVICE_MEMORY_LIMIT,
    DEVICE_MEMORY_USAGE,
    DEVICE_WORK,
    EVENTS_DROPPED,
    GC_GENERATION,
    KERNEL_LAUNCH_DELAY,
    KERNEL_NAME,
    MEMCPY_KIND,
    MEMORY_STATE,
    METRICS,
    OP_NAME,
    OVERHEAD,
    PATTERN_NAME,
    PHASE,
    REASON,
    RECORDER_STATE,
    RECORDER_STATES,
    STATE,
    STEP_DURATION,
    STEP_LAST_TIMESTAMP,
    STEP_NUMBER,
    STEP_PHASE,
    Metric,
)

STEP_S = 0.25  # between the ends of two, on average
WORLD_SIZE = 4
# It comes last to every collective, so the others wait for it.
STRAGGLER = 2
_GIB = 2**30
# Long after anything that an exemplar in Prometheus would be too old for.
_EXEMPLAR_EVERY_S = 600.0

_VALUES: dict[str, Sequence[str | int]] = {
    OP_NAME: ("aten::mm", "aten::addmm", "aten::gelu", "aten::copy_", "aten::sum", "aten::bmm", "other"),
    PHASE: ("forward", "backward", "optimizer"),
    KERNEL_NAME: ("sm90_xmma_gemm_bf16", "flash_fwd", "flash_bwd", "layer_norm", "ncclDevKernel"),
    STEP_PHASE: ("train",),
    CUDA_DEVICE_INDEX: (0,),
    MEMCPY_KIND: ("HtoD", "DtoD", "memset"),
    DEVICE_WORK: ("compute", "collective", "copy", "any"),
    MEMORY_STATE: ("allocated", "reserved", "peak"),
    COLLECTIVE_NAME: ("all_reduce", "all_gather"),
    COLLECTIVE_GROUP: ("default",),
    REASON: ("buffer_full", "unreachable"),
    STATE: RECORDER_STATES,
    GC_GENERATION: (0, 1, 2),
    CPU_COUNTER: ("task-clock", "page-faults"),
    PATTERN_NAME: ("extra-device-copy", "pageable-copy"),
}  # fmt: skip

# Of the metrics that do not go on at one unit a second for all their attributes together.
_RATES = {
    "torch.op.calls": 4000.0,
    "torch.op.time": 0.9,
    "torch.op.self_time": 0.7,
    "torch.kernel.launches": 3000.0,
    "torch.kernel.time": 0.8,
    "torch.memcpy.time": 0.05,
    "torch.memcpy.size": 3e9,
    "torch.memory.oom": 0.0005,
    "torch.step.skipped": 0.02,
    "torch.compile.recompilations": 0.002,
    "torch.python.gc_pause": 0.004,
    "torch.cpu.count": 1e6,
    "torch.pattern.findings": 0.01,
    "torchprof.events.recorded": 20_000.0,
    EVENTS_DROPPED: 0.5,
    "torchprof.texts.redacted": 0.001,
    "torchprof.export.spans": 3.0,
    "torchprof.export.size": 2500.0,
    "torchprof.export.failed_spans": 0.01,
    "torchprof.export.recordings": 0.0017,
    "torchprof.export.dropped_recordings": 0.0002,
}
_BUSY = {"compute": 0.62, "collective": 0.2, "copy": 0.04, "any": 0.78}


@dataclass(frozen=True, slots=True)
class _Distribution:
    """Of a histogram: how many values a second, and the log-normal distribution that they have."""

    rate: float
    median_s: float
    sigma: float

    @property
    def mean_s(self) -> float:
        return self.median_s * math.exp(self.sigma**2 / 2)

    def counts(self, values: float, bounds_s: Sequence[float]) -> list[int]:
        """How many of so many values each bucket has; with more of them none has fewer."""
        below = [
            0.5 * (1 + math.erf(math.log(bound / self.median_s) / (self.sigma * math.sqrt(2))))
            for bound in bounds_s
        ]
        shares = zip((0.0, *below), (*below, 1.0), strict=True)
        return [int(values * (upper - lower)) for lower, upper in shares]

    def slower(self) -> _Distribution:
        """Of the few values that are out of the ordinary."""
        return replace(self, rate=self.rate * 0.12, median_s=self.median_s * 1.7)


_DISTRIBUTIONS = {
    STEP_DURATION: _Distribution(1 / STEP_S, STEP_S * 0.9, 0.12),
    DATALOADER_WAIT: _Distribution(1 / STEP_S, 0.018, 0.6),
    KERNEL_LAUNCH_DELAY: _Distribution(3000.0, 4e-4, 1.0),
    COLLECTIVE_WAIT: _Distribution(8.0, 0.022, 0.5),
}
_SHORT = _Distribution(500.0, 6e-4, 0.9)


def _uneven(elapsed_s: float, period_s: float, swing: float, shift: float) -> float:
    """Seconds that go by now faster, now slower, by the share `swing`; never backwards. 0 at the start."""
    turn_s = period_s / (2 * math.pi)
    return elapsed_s + swing * turn_s * (math.sin(elapsed_s / turn_s + shift) - math.sin(shift))


class SimulatedRank:
    """One process of the training."""

    def __init__(self, rank: int) -> None:
        self.rank = rank

    def families(self, elapsed_s: float, unix_s: float) -> list[MetricFamily]:
        """All metrics as they stand `elapsed_s` after the start, at `unix_s`."""
        start_unix_ns = int((unix_s - elapsed_s) * 1e9)
        return [
            MetricFamily(metric, self._points(metric, elapsed_s, unix_s, start_unix_ns)) for metric in METRICS
        ]

    def trace_id(self, elapsed_s: float) -> bytes:
        """Of the step that was captured last."""
        captured = int(elapsed_s // _EXEMPLAR_EVERY_S)
        return hashlib.sha256(f"{self.rank} {captured}".encode()).digest()[:16]

    def _points(self, metric: Metric, elapsed_s: float, unix_s: float, start_unix_ns: int) -> list[Point]:
        combinations = [
            dict(zip(metric.attributes, values, strict=True))
            for values in product(*(_VALUES[attribute] for attribute in metric.attributes))
        ]
        points: list[Point] = []
        for index, attributes in enumerate(combinations):
            if metric.kind == "histogram":
                # The first names are the most frequent.
                share = 2.0**-index
                points.append(self._histogram(metric, attributes, elapsed_s, unix_s, start_unix_ns, share))
                continue
            if metric.kind == "gauge":
                value = self._gauge(metric.name, attributes, elapsed_s, unix_s)
            else:
                value = self._counter(metric, attributes, index, len(combinations), elapsed_s)
            points.append(NumberPoint(attributes, value, start_unix_ns))
        return points

    def _counter(
        self, metric: Metric, attributes: Attributes, index: int, count: int, elapsed_s: float
    ) -> float:
        seconds = _uneven(elapsed_s, 1800.0 + 300.0 * index, 0.12, self.rank)
        if metric.name == DEVICE_BUSY_TIME:
            return seconds * _BUSY[str(attributes[DEVICE_WORK])]
        weights = 2.0 * (count - index) / (count * (count + 1))
        value = seconds * _RATES[metric.name] * weights
        return value if metric.unit == "s" else float(int(value))

    def _gauge(self, name: str, attributes: Attributes, elapsed_s: float, unix_s: float) -> float:
        if name == DEVICE_MEMORY_USAGE:
            return self._memory(str(attributes[MEMORY_STATE]), elapsed_s)
        if name == DEVICE_MEMORY_LIMIT:
            return 80.0 * _GIB
        if name == RECORDER_STATE:
            return float(attributes[STATE] == "both")
        if name == STEP_NUMBER:
            return float(int(elapsed_s / STEP_S))
        if name == STEP_LAST_TIMESTAMP:
            return unix_s - elapsed_s % STEP_S
        assert name == OVERHEAD, name
        return 0.006 + 0.001 * self.rank + 0.0015 * math.sin(elapsed_s / 700.0 + self.rank)

    def _memory(self, state: str, elapsed_s: float) -> float:
        # It rises by 4 GiB an hour, as with a list that keeps tensors, until the job is restarted.
        leaked = 4.0 * _GIB * (elapsed_s / 3600.0 % 8.0)
        allocated = (38.0 + 1.5 * self.rank) * _GIB + leaked + 1.2 * _GIB * math.sin(elapsed_s * 1.7)
        if state == "allocated":
            return float(int(allocated))
        if state == "peak":
            return float(int((41.0 + 1.5 * self.rank) * _GIB + leaked))
        return float(int((46.0 + 2.0 * ((elapsed_s // 1800) % 3)) * _GIB + leaked))

    def _histogram(
        self,
        metric: Metric,
        attributes: Attributes,
        elapsed_s: float,
        unix_s: float,
        start_unix_ns: int,
        share: float,
    ) -> HistogramPoint:
        usual = _DISTRIBUTIONS.get(metric.name, _SHORT)
        is_late = metric.name == COLLECTIVE_WAIT and self.rank == STRAGGLER
        counts, total_s = [0] * (len(metric.bounds) + 1), 0.0
        for distribution, swing in ((usual, 0.05), (usual.slower(), 0.9)):
            seconds = _uneven(elapsed_s, 4000.0 + 500.0 * self.rank, swing, self.rank)
            values = seconds * distribution.rate * share * (0.05 if is_late else 1.0)
            added = distribution.counts(values, metric.bounds)
            counts = [before + more for before, more in zip(counts, added, strict=True)]
            total_s += sum(added) * distribution.mean_s
        exemplars = (self._exemplar(elapsed_s, unix_s),) if metric.name == STEP_DURATION else ()
        return HistogramPoint(
            attributes,
            counts,
            total_s,
            sum(counts),
            None,
            None,
            start_unix_ns,
            exemplars=exemplars,
        )

    def _exemplar(self, elapsed_s: float, unix_s: float) -> Exemplar:
        since_s = elapsed_s % _EXEMPLAR_EVERY_S
        return Exemplar(
            STEP_S, int((unix_s - since_s) * 1e9), self.trace_id(elapsed_s), bytes([self.rank + 1] * 8)
        )
