"""Which steps have their ops counted, so that counting stays under a share of the program's time.

Steps come in blocks of N. One step of each block, picked uniformly at random, is counted, and each of its ops
stands for N: the expectation of every sum is its true value, whatever happens in the steps, as N is fixed
before the pick. The N of the next block follows from what counting cost in the steps so far.

A program without steps (serving) is cut into slices of time instead, by whoever calls `tick`.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable
from typing import Literal, Protocol

from otel_torchprof.recorder.counting_share import CountingShare
from otel_torchprof.recorder.failures import failures

SamplingMode = Literal["sampled", "full"]

DEFAULT_MAX_OVERHEAD = 0.01
# Longest block: what happens once an hour must not stand for too much.
MAX_STEPS_PER_BLOCK = 1000
# A program whose last boundary was longer ago has no steps at the moment.
STEPLESS_AFTER_NS = 30_000_000_000


class SampledCounts(Protocol):
    """What a sampler switches: `recorder.op_counts.OpCounts`."""

    @property
    def counted(self) -> int:
        """Ops counted so far, each once."""

    def sample(self, weight: int) -> None:
        """Counts each op for `weight` from now on, none when it is 0."""


class StepSampler:
    """Switches counting at the boundaries of steps: `step_boundary` is a listener of `recorder.steps`.

    Args:
        counts: what to switch; started, and counting with weight 1.
        mode: "full" counts every step.
        max_overhead: the share of the program's time that counting may take.
        op_cost_ns: what counting adds to an op in a loop: `recorder.op_cost` measures it.
        choice: random numbers.
        clock_ns: a monotonic clock, the same that `tick` is given.

    Raises:
        ValueError: `max_overhead` or `op_cost_ns` is not above 0.
    """

    def __init__(
        self,
        counts: SampledCounts,
        *,
        mode: SamplingMode = "sampled",
        max_overhead: float = DEFAULT_MAX_OVERHEAD,
        op_cost_ns: float,
        choice: random.Random | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        if not max_overhead > 0 or not op_cost_ns > 0:
            raise ValueError(f"overhead and cost of an op must be above 0, not {max_overhead}, {op_cost_ns}")
        self._counts = counts
        self._mode = mode
        self._max_overhead = max_overhead
        self._choice = choice or random.Random()
        self._clock_ns = clock_ns
        self._process_id = os.getpid()
        self._lock = threading.RLock()  # a signal handler may end a step inside a boundary
        self._is_stopped = False

        # What is under way before the first boundary is a block of its own, and not a whole step.
        self._block_size = 1
        self._position = 0
        self._picked = 0
        self._is_whole = False
        self._boundary_ns = self._step_boundary_ns = clock_ns()
        self._counted_at_boundary = counts.counted
        self._share = CountingShare(op_cost_ns)
        self._switch_ns = 0
        self._switching_ns = 0

    @property
    def block_size(self) -> int:
        """Steps in the block under way: how many each counted one stands for."""
        return self._block_size

    @property
    def switching_ns(self) -> int:
        """What switching has taken so far, beside the counting itself."""
        return self._switching_ns

    def step_boundary(self, number: int = -1, links: bytes = b"") -> None:
        """A step ends and the next begins. Never raises. The arguments of a step listener are not used."""
        del number, links
        with failures.guard("a step was not sampled"):
            self._pass_boundary(self._clock_ns(), of_step=True)

    def tick(self, now_ns: int) -> None:
        """Time passes: a boundary, when there has been none of a step for `STEPLESS_AFTER_NS`. Never raises.

        To be called about every second: what is between two ticks is to a program without steps what a step
        is to others.

        Args:
            now_ns: by the clock of this sampler.
        """
        with failures.guard("a slice of time was not sampled"):
            if now_ns - self._step_boundary_ns >= STEPLESS_AFTER_NS:
                self._pass_boundary(now_ns, of_step=False)

    def stop(self) -> None:
        """Switches nothing any more; again, it does nothing."""
        with self._lock:
            self._is_stopped = True

    def _pass_boundary(self, now_ns: int, *, of_step: bool) -> None:
        # The lock may be that of a thread that stayed in the parent.
        if os.getpid() != self._process_id:
            return
        with self._lock:
            if self._is_stopped:
                return
            self._learn(now_ns - self._boundary_ns)
            self._position += 1
            if self._position == self._block_size:
                self._begin_block()
            self._switch(self._block_size if self._position == self._picked else 0)
            self._is_whole = True
            self._boundary_ns = now_ns
            self._counted_at_boundary = self._counts.counted
            if of_step:
                self._step_boundary_ns = now_ns

    def _learn(self, step_ns: int) -> None:
        if not self._is_whole or step_ns <= 0:
            return
        if self._position == self._picked:
            ops = self._counts.counted - self._counted_at_boundary
            self._share.counted_step(step_ns, ops, self._switch_ns)
        else:
            self._share.plain_step(step_ns)

    def _begin_block(self) -> None:
        self._share.end_block()
        self._block_size = self._next_block_size()
        self._picked = self._choice.randrange(self._block_size)
        self._position = 0

    def _next_block_size(self) -> int:
        counting = self._share.counting
        if self._mode == "full" or counting <= self._max_overhead:
            return 1
        needed = math.ceil((counting + self._share.switching) / self._max_overhead)
        return min(needed, MAX_STEPS_PER_BLOCK)

    def _switch(self, weight: int) -> None:
        start_ns = self._clock_ns()
        self._counts.sample(weight)
        spent_ns = self._clock_ns() - start_ns
        self._switching_ns += spent_ns
        if weight:
            self._switch_ns = spent_ns
