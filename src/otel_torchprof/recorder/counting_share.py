"""What share of a step counting all its ops takes: learned from counted steps and those between them."""

from __future__ import annotations

from collections import deque
from statistics import median

# How much of the estimates the latest counted step makes.
_NEWEST_SHARE = 0.25
# An op of a program finds other things in the caches than one in a loop, on which its cost was measured.
_COLD_FACTOR = 2.0
# Comparisons that are looked at, and how many it takes to believe them.
_COMPARED = 32
_ENOUGH_COMPARED = 8
# Uncounted steps of a block that its counted one is compared with.
_MAX_PLAIN_STEPS = 16


class CountingShare:
    """The greater of two estimates: ops times what counting adds to one, and what counted steps took longer.

    The first is sure but low: caches are cold in a real step, and torch does more in its backward passes
    while anyone listens. The second is the truth, with the noise of the steps in it: the median over many
    blocks of how much longer the counted step took than the others of its block. Until there are enough of
    these the first counts twice.

    Args:
        op_cost_ns: what counting adds to an op in a loop.
    """

    def __init__(self, op_cost_ns: float) -> None:
        self._op_cost_ns = op_cost_ns
        # Moving averages over counted steps, as shares of their time.
        self._computed: float | None = None
        self._switching = 0.0
        self._counted_ns = 0  # of the block under way; 0 = not yet
        self._plain_ns: deque[int] = deque(maxlen=_MAX_PLAIN_STEPS)
        self._compared: deque[float] = deque(maxlen=_COMPARED)

    @property
    def counting(self) -> float:
        """Of counting all ops of a step; 0 before any was counted."""
        computed = self._computed or 0.0
        if len(self._compared) < _ENOUGH_COMPARED:
            return _COLD_FACTOR * computed
        return max(computed, median(self._compared))

    @property
    def switching(self) -> float:
        """Of switching that on and off again."""
        return self._switching

    def counted_step(self, step_ns: int, ops: int, switch_ns: int) -> None:
        """A step ended that was counted.

        Args:
            step_ns: what it took, above 0, switching counting on included.
            ops: how many were counted in it.
            switch_ns: what that took, as does switching it off.
        """
        computed = ops * self._op_cost_ns / step_ns
        switching = 2 * switch_ns / step_ns
        if self._computed is None:
            self._computed, self._switching = computed, switching
        else:
            self._computed += _NEWEST_SHARE * (computed - self._computed)
            self._switching += _NEWEST_SHARE * (switching - self._switching)
        self._counted_ns = max(1, step_ns - switch_ns)

    def plain_step(self, step_ns: int) -> None:
        """A step ended that was not counted, after this time above 0."""
        self._plain_ns.append(step_ns)

    def end_block(self) -> None:
        """All steps that are to be compared with one another have ended."""
        if self._counted_ns and self._plain_ns:
            longer_ns = self._counted_ns - median(self._plain_ns)
            self._compared.append(longer_ns / self._counted_ns)
        self._counted_ns = 0
        self._plain_ns.clear()
