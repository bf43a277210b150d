"""The metrics of a running program, joined from everything that counts."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import ModuleType

from otel_torchprof.config import MetricsSampling, Settings
from otel_torchprof.live.findings import LiveFindings
from otel_torchprof.live.op_counts import LiveOpCounts
from otel_torchprof.metrics.families import Attributes, MetricFamily, NumberPoint
from otel_torchprof.metrics.live_steps import LiveSteps
from otel_torchprof.metrics.recorder_metrics import counter_families
from otel_torchprof.recorder.cuda_memory import CudaMemory
from otel_torchprof.recorder.dataloader_waits import DataLoaderWaits
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.gc_pauses import GcPauses
from otel_torchprof.recorder.recompilations import Recompilations
from otel_torchprof.recorder.steps import StepTracker
from otel_torchprof.recording import Recording
from otel_torchprof.semconv_metrics import (
    COMPILE_RECOMPILATIONS,
    CPU_COUNT,
    CPU_COUNTER,
    CUDA_DEVICE_INDEX,
    DEVICE_MEMORY_LIMIT,
    DEVICE_MEMORY_USAGE,
    EVENTS_DROPPED,
    EVENTS_RECORDED,
    GC_GENERATION,
    MEMORY_OOM,
    MEMORY_STATE,
    METRIC_BY_NAME,
    OVERHEAD,
    PATTERN_FINDINGS,
    PATTERN_NAME,
    PYTHON_GC_PAUSE,
    REASON,
    RECORDER_STATE,
    RECORDER_STATES,
    STATE,
    TEXTS_REDACTED,
)
from otel_torchprof.telemetry.counters import ExportCounts
from otel_torchprof.telemetry.export_metrics import export_families
from otel_torchprof.telemetry.redaction import Redactor
from otel_torchprof.telemetry.work_time import work_time

# Sampling aims below what is allowed: its estimate of the cost is one.
_AIM = 0.5


class LiveMetrics:
    """Counts between `start` and `pause`, and says at any time what was counted. Raises nothing.

    Args:
        settings: what to count.
        tracker: counts the steps.
        export_counts: what became of spans.
        state: of `RECORDER_STATES`, the one that the instrumentation is in.
        overhead: the share of the program's time that measuring takes.
        redactor: what names of user scopes pass.
    """

    def __init__(
        self,
        settings: Settings,
        tracker: StepTracker,
        *,
        export_counts: Callable[[], ExportCounts],
        state: Callable[[], str],
        overhead: Callable[[], float],
        redactor: Redactor | None = None,
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._export_counts = export_counts
        self._state = state
        self._overhead = overhead
        self._redactor = redactor
        self._unix_ns = unix_ns
        self.steps = LiveSteps(lambda: tracker.backwards, lambda: tracker.skipped, unix_ns=unix_ns)
        self._ops = LiveOpCounts(
            "full" if settings.metrics_sampling is MetricsSampling.FULL else "sampled",
            settings.max_overhead * _AIM,
            with_durations=settings.op_histograms,
            backwards=lambda: tracker.backwards,
            redact=redactor,
            unix_ns=unix_ns,
        )
        self.findings = LiveFindings()
        self._gc_pauses = GcPauses()
        self._waits: DataLoaderWaits | None = None
        self._start_over()

    @property
    def counting_cost_ns(self) -> float:
        """What counting ops has taken so far."""
        return self._ops.cost_ns

    @property
    def counted_ops(self) -> int:
        """Ops counted so far."""
        return self._ops.counted

    def start(self, torch: ModuleType, number: int) -> None:
        """Count all but ops from now on, inside step `number`."""
        self.steps.step_began(number)
        self._gc_pauses.start()
        if self._waits is None:
            with failures.guard("waits for DataLoaders are not counted"):
                self._waits = DataLoaderWaits(torch, self.steps.waited)
                self._waits.install()

    def start_ops(self) -> None:
        """Count ops too from now on. Idempotent."""
        self._ops.start()

    def pause_ops(self) -> None:
        """Count no ops until `start_ops`; all else is still counted. Idempotent."""
        self._ops.pause()

    def pause(self) -> None:
        """Count no more until `start`. Idempotent."""
        self.steps.pause()
        self._gc_pauses.stop()
        waits, self._waits = self._waits, None
        if waits is not None:
            waits.remove()
        self._ops.pause()

    def boundary(self, number: int) -> None:
        """A step ends and step `number` begins."""
        with failures.guard("a step was not counted"):
            self.steps.boundary(number)
            self._ops.boundary(number)

    def add_recording(self, recording: Recording) -> None:
        """Add what only a recording knows; on the export thread."""
        with failures.guard("a recording is not in the metrics"):
            counted = [
                (point.attributes[CPU_COUNTER], point.value)
                for family in counter_families(recording, 0)
                for point in family.points
                if isinstance(point, NumberPoint)
            ]
            with self._lock:
                self._recorded += len(recording)
                self._dropped.update(recording.drops)
                for counter, value in counted:
                    self._cpu_counts[str(counter)] += int(value)

    def start_over_in_child(self) -> None:
        """Count from zero, and not before `start`, in a forked child."""
        self.steps.start_over()
        self._ops.start_over()
        self._gc_pauses.start_over()
        self.findings.start_over()
        self._start_over()

    def collect(self) -> list[MetricFamily]:
        """All metrics as they stand. What cannot be read is left out, and said once."""
        families: list[MetricFamily] = []
        with work_time.measured(), self._lock:
            for read in (
                self._ops.families,
                self.steps.families,
                self._read_python,
                self._read_devices,
                self._read_recorder,
                lambda: export_families(self._export_counts(), self._start_unix_ns),
            ):
                with failures.guard("some metrics were not collected"):
                    families += read()
        return families

    def _start_over(self) -> None:
        self._lock = threading.RLock()  # a signal handler may shut down while its own thread collects
        self._start_unix_ns = self._unix_ns()
        self._recompilations = Recompilations()
        self._recompilations_at_start = self._recompilations.count()
        self._cuda_memory = CudaMemory()
        self._recorded = 0
        self._dropped: Counter[str] = Counter()
        self._cpu_counts: Counter[str] = Counter()

    def _read_python(self) -> list[MetricFamily]:
        recompilations = self._recompilations.count() - self._recompilations_at_start
        pauses_ns = self._gc_pauses.pauses_ns
        return [
            self._family(COMPILE_RECOMPILATIONS, [({}, recompilations)]),
            self._family(
                PYTHON_GC_PAUSE,
                [({GC_GENERATION: generation}, ns / 1e9) for generation, ns in enumerate(pauses_ns)],
            ),
        ]

    def _read_devices(self) -> list[MetricFamily]:
        usage: list[tuple[Attributes, int]] = []
        limits: list[tuple[Attributes, int]] = []
        ooms: list[tuple[Attributes, int]] = []
        for memory in self._cuda_memory.read():
            for state, size_bytes in (
                ("allocated", memory.allocated_bytes),
                ("reserved", memory.reserved_bytes),
                ("peak", memory.peak_bytes),
            ):
                usage.append(({CUDA_DEVICE_INDEX: memory.device, MEMORY_STATE: state}, size_bytes))
            if memory.limit_bytes is not None:
                limits.append(({CUDA_DEVICE_INDEX: memory.device}, memory.limit_bytes))
            ooms.append(({CUDA_DEVICE_INDEX: memory.device}, memory.oom_count))
        return [
            self._family(DEVICE_MEMORY_USAGE, usage),
            self._family(DEVICE_MEMORY_LIMIT, limits),
            self._family(MEMORY_OOM, ooms),
        ]

    def _read_recorder(self) -> list[MetricFamily]:
        dropped = self._dropped + Counter(self._ops.drops)
        redacted = {} if self._redactor is None else self._redactor.counts
        state = self._state()
        return [
            self._family(CPU_COUNT, [({CPU_COUNTER: n}, v) for n, v in sorted(self._cpu_counts.items())]),
            self._family(PATTERN_FINDINGS, [({PATTERN_NAME: n}, v) for n, v in self.findings.counts()]),
            self._family(EVENTS_RECORDED, [({}, self._recorded + self._ops.counted)]),
            self._family(EVENTS_DROPPED, [({REASON: n}, v) for n, v in sorted(dropped.items())]),
            self._family(TEXTS_REDACTED, [({REASON: n}, v) for n, v in sorted(redacted.items())]),
            self._family(OVERHEAD, [({}, self._overhead())]),
            self._family(RECORDER_STATE, [({STATE: one}, int(one == state)) for one in RECORDER_STATES]),
        ]

    def _family(self, name: str, values: Sequence[tuple[Attributes, int | float]]) -> MetricFamily:
        points = [NumberPoint(attributes, value, self._start_unix_ns) for attributes, value in values]
        return MetricFamily(METRIC_BY_NAME[name], points)
