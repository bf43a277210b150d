"""Counting every op without recording it: calls, times and durations by name and phase."""

from __future__ import annotations

import os
import threading
import weakref
from enum import IntEnum
from typing import NamedTuple

from otel_torchprof._native import core
from otel_torchprof.recorder.bridge import Bridge, load_bridge

DEFAULT_MAX_NAMES = 10_000
# The name of all that found no room (native/core/aggregate/op_names.cpp).
TABLE_FULL_NAME = "(name table full)"


class OpPhase(IntEnum):
    """The part of a training step that an op belongs to (native/core/aggregate/phase.h)."""

    OTHER = 0
    FORWARD = 1
    BACKWARD = 2
    OPTIMIZER = 3


class OpCount(NamedTuple):
    """What was counted of one name in one phase; times in ns of all threads together.

    `duration_counts` has an item for each of `semconv_metrics.SHORT_BOUNDS_S` and one for what is longer;
    None without histograms. Everything is estimated when only a sample was counted.
    """

    name: str
    phase: OpPhase
    is_user: bool  # a user scope, not an op
    calls: int
    total_ns: int
    self_ns: int
    duration_counts: tuple[int, ...] | None


class OpCounts:
    """Counts the ops of all threads between `start()` and `stop()`; captures may record beside it.

    One counts at a time in a process. Its numbers never get less, and go on where they stopped when it starts
    again. In a forked child it has counted nothing, and counts nothing until it is started there. One that is
    dropped, or still counts when the interpreter exits, is stopped then.

    Args:
        max_names: names that are told apart; all others are counted together, as `TABLE_FULL_NAME`. User
            scopes get at most half of them.
        with_durations: whether to keep a histogram of durations for each name and phase.

    Raises:
        ValueError: `max_names` is not between 1 and 1,048,576.
    """

    def __init__(self, *, max_names: int = DEFAULT_MAX_NAMES, with_durations: bool = False) -> None:
        self._max_names = max_names
        self._with_durations = with_durations
        self._session = _Session(core.OpAggregator(max_names, with_durations))
        self._finalizer = weakref.finalize(self, self._session.stop)

    @property
    def active(self) -> bool:
        """Whether ops are counted at this moment, in this process."""
        return self._session.weight > 0 and not self._session.forked

    @property
    def weight(self) -> int:
        """How many ops each counted one stands for; 0 while none is counted."""
        return self._session.weight if self.active else 0

    @property
    def counted(self) -> int:
        """Ops that were counted so far, each once whatever its weight."""
        return self._session.native.counted

    @property
    def drops(self) -> dict[str, int]:
        """What was not counted so far, or not under its name: counts by reason."""
        return self._session.native.drops()

    def start(self) -> None:
        """Begins to count every op; again, it does nothing.

        Raises:
            BridgeUnavailable: ops cannot be counted with this torch on this machine.
            RuntimeError: another one counts.
        """
        if self._session.forked:
            self._finalizer.detach()
            self._session = _Session(core.OpAggregator(self._max_names, self._with_durations))
            self._finalizer = weakref.finalize(self, self._session.stop)
        self._session.start(load_bridge())

    def stop(self) -> None:
        """Counts no more; again, it does nothing. What was counted can still be collected."""
        self._session.stop()

    def sample(self, weight: int) -> None:
        """Counts each op that begins from now on for `weight`; does nothing when not started.

        With 0 none is counted, and torch calls nothing of ours. What is open at a change still counts as it
        would have, unless its thread begins an op under another weight before it ends: then it is given up.

        Raises:
            ValueError: the weight is negative or above 2^31 - 1.
        """
        self._session.sample(weight)

    def set_inference(self, is_inference: bool) -> None:
        """Says whether the program evaluates or infers: without gradients no op tells a forward pass."""
        self._session.native.set_inference(is_inference)

    def collect(self) -> list[OpCount]:
        """Everything counted so far: a row for each name and phase. Stops no thread."""
        names, phases, is_user, calls, total_ns, self_ns, durations = self._session.native.collect()
        buckets: list[list[int]] | list[None] = [None] * len(names)
        if self._with_durations and names:
            buckets = durations.reshape(len(names), -1).tolist()
        columns = (phases, is_user, calls, total_ns, self_ns)
        rows = zip(names, *(column.tolist() for column in columns), buckets, strict=True)
        return [
            OpCount(
                name, OpPhase(phase), bool(user), n, total, self_, None if counts is None else tuple(counts)
            )
            for name, phase, user, n, total, self_, counts in rows
        ]


class _Session:
    """The counting half of an `OpCounts`: all that stopping needs, so that it can outlive that object."""

    def __init__(self, native: core.OpAggregator) -> None:
        self.native = native
        self.weight = 0
        self._bridge: Bridge | None = None
        self._process_id = os.getpid()
        # A signal handler may stop it while its own thread switches it.
        self._switching = threading.RLock()

    @property
    def forked(self) -> bool:
        return os.getpid() != self._process_id

    def start(self, bridge: Bridge) -> None:
        with self._switching:
            if self._bridge is not None:
                return
            self.native.start()
            self._bridge = bridge
            try:
                self.sample(1)
            except BaseException:
                self.stop()
                raise

    def stop(self) -> None:
        if self.forked:
            return
        with self._switching:
            self.sample(0)
            self._bridge = None
            self.native.stop()

    def sample(self, weight: int) -> None:
        if self.forked:
            return
        if weight < 0:
            raise ValueError(f"an op counts for 0 or more, not {weight}")
        with self._switching:
            bridge = self._bridge
            if bridge is None or weight == self.weight:
                return
            self.native.set_weight(weight)
            self.weight = weight
            if weight:
                bridge.enable_counting()
            else:
                bridge.disable_counting()
