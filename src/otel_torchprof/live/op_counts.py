"""Ops counted while the program runs: in every step, or in a sample that keeps the cost within bounds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from otel_torchprof.metrics.families import MetricFamily
from otel_torchprof.metrics.live_ops import LiveOps
from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.recorder.bridge import BridgeUnavailable, bridge_status
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.op_cost import ASSUMED_OP_COST_NS, measure_op_cost_ns
from otel_torchprof.recorder.op_counts import TABLE_FULL_NAME, OpCounts
from otel_torchprof.recorder.step_sampling import SamplingMode, StepSampler

_logger = logging.getLogger(__name__)

_TO_BE_COMPILED = "to be compiled"
# How often a program without steps is cut into slices.
_TICK_S = 1.0


class LiveOpCounts:
    """Counts ops between `start` and `pause`. Raises nothing.

    Where the bridge to torch is still to be compiled that happens in the background, and counting begins
    after it.

    Args:
        mode: whether to count every step.
        max_overhead: the share of the program's time that counting may take.
        with_durations: make a histogram of each name, too.
        backwards: how many backwards have begun in the process.
        redact: what names of user scopes pass.
        unix_ns: the time of day.
    """

    def __init__(
        self,
        mode: SamplingMode,
        max_overhead: float,
        *,
        with_durations: bool,
        backwards: Callable[[], int],
        redact: Callable[[str], str] | None = None,
        unix_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._mode = mode
        self._max_overhead = max_overhead
        self._with_durations = with_durations
        self._backwards = backwards
        self._redact = redact
        self._unix_ns = unix_ns
        self.start_over()

    def start_over(self) -> None:
        """Count from zero, and not before `start`: for a forked child."""
        self._counts: OpCounts | None = None
        self._op_cost_ns = ASSUMED_OP_COST_NS
        self._sampler: StepSampler | None = None
        self._switching_before_ns = 0  # of samplers that are stopped
        self._ops: LiveOps | None = None
        self._running: threading.Event | None = None  # set when what was started is to end
        self._backwards_at_boundary = 0
        self._lock = threading.RLock()  # a signal handler may switch modes

    @property
    def counted(self) -> int:
        """Ops counted so far."""
        return 0 if self._counts is None else self._counts.counted

    @property
    def drops(self) -> Mapping[str, int]:
        """What was not counted, or not under its name, by reason."""
        return {} if self._counts is None else self._counts.drops

    @property
    def cost_ns(self) -> float:
        """What counting has taken so far, of all threads together, by what an op was found to cost."""
        sampler = self._sampler
        switching_ns = self._switching_before_ns + (0 if sampler is None else sampler.switching_ns)
        return self.counted * self._op_cost_ns + switching_ns

    def start(self) -> None:
        """Count from now on. Idempotent."""
        with self._lock, failures.guard("ops are not counted"):
            if self._running is not None:
                return
            self._running = threading.Event()
            self._backwards_at_boundary = self._backwards()
            status = bridge_status()
            if not status.available:
                raise BridgeUnavailable(status.reason)
            if status.source != _TO_BE_COMPILED:
                self._start_counting(self._running)
            if self._sampler is None or self._mode == "sampled":
                threading.Thread(
                    target=self._run, args=(self._running,), name=f"{OWN_THREAD_PREFIX}counts", daemon=True
                ).start()

    def pause(self) -> None:
        """Count no more until `start`. Idempotent."""
        with self._lock:
            running, self._running = self._running, None
            if running is not None:
                running.set()
            sampler, self._sampler = self._sampler, None
            if sampler is not None:
                sampler.stop()
                self._switching_before_ns += sampler.switching_ns
            if self._counts is not None:
                with failures.guard("ops are still counted"):
                    self._counts.stop()

    def boundary(self, number: int) -> None:
        """A step ends and step `number` begins."""
        sampler = self._sampler
        if sampler is not None:
            sampler.step_boundary(number)
            self._look_for_backwards()

    def families(self) -> list[MetricFamily]:
        """The metrics of all ops counted so far."""
        if self._counts is None or self._ops is None:
            return []
        return self._ops.families(self._counts.collect(), self._unix_ns())

    def _start_counting(self, running: threading.Event) -> None:
        if self._counts is None:
            self._op_cost_ns = measure_op_cost_ns()
            self._counts = OpCounts(with_durations=self._with_durations)
            self._ops = LiveOps(self._unix_ns(), table_full=TABLE_FULL_NAME, redact=self._redact)
        self._counts.start()
        with self._lock:
            if running.is_set():  # paused while the bridge was compiled
                self._counts.stop()
            else:
                self._sampler = StepSampler(
                    self._counts,
                    mode=self._mode,
                    max_overhead=self._max_overhead,
                    op_cost_ns=self._op_cost_ns,
                )

    def _run(self, running: threading.Event) -> None:
        with failures.guard("ops are not counted"):
            if self._sampler is None:
                self._start_counting(running)
            while self._mode == "sampled" and not running.wait(_TICK_S):
                sampler = self._sampler
                if sampler is not None:
                    sampler.tick(time.monotonic_ns())

    def _look_for_backwards(self) -> None:
        """Without gradients no op tells a forward pass: a step without a backward was for inference."""
        backwards, counts = self._backwards(), self._counts
        if counts is not None:
            counts.set_inference(backwards == self._backwards_at_boundary)
        self._backwards_at_boundary = backwards
