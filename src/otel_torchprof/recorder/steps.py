"""Counting the steps of a training loop and finding the boundaries between its iterations.

The count is the maximum over requesters (an optimizer, a gradient scaler, the program itself), as torch's
Kineto step tracker means it. Unlike there, the boundary is not announced when the first requester of an
iteration advances but when the last one has: a GAN has two optimizers and one boundary an iteration, after
the second. Who takes part in an iteration is learned from the ones before it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.weak_identity_map import WeakIdentityMap

# Called after each boundary, on the thread that made it, with the number of the step that begins there and
# the span contexts to link it to (24 bytes each: trace id, span id).
StepListener = Callable[[int, bytes], None]


class StepSource(IntEnum):
    """Who says that a step is over. Lower sources make no boundaries while a requester of a higher lives."""

    OPTIMIZER = 1
    GRAD_SCALER = 2
    EXPLICIT = 3


@dataclass(slots=True, eq=False)
class _Requester:
    source: StepSource
    count: int
    # Number of the backward that its last counted step followed.
    backward: int
    # An optimizer may be stepped in parts, a few parameter groups at a time, after one backward.
    parts_expected: int
    parts_done: int = 0
    parts_settled: bool = False
    # False once it missed an iteration of the others: never waited for again.
    regular: bool = True
    # The open round waits for it.
    missing: bool = False
    in_open_round: bool = False
    in_last_round: bool = False


class StepTracker:
    """Counts steps per requester and announces each boundary once.

    A round is what happens between two boundaries. It closes when every regular requester of the highest
    source seen has advanced in it.

    Args:
        sources: the sources that may make boundaries.
    """

    def __init__(self, sources: frozenset[StepSource] = frozenset(StepSource)) -> None:
        self.sources = sources
        self._listeners: tuple[StepListener, ...] = ()
        self.start_over()

    def start_over(self) -> None:
        """Count from 0, with a lock of our own: for a forked child."""
        # A signal handler or a destructor may step while its own thread holds the locks.
        self._lock = threading.RLock()
        # Held from counting to announcing: threads that step at once announce in the order of numbers.
        self._announcing = threading.RLock()
        self._source = StepSource.OPTIMIZER
        self._current = 0
        self._backwards = 0
        self._skipped = 0
        self._backwards_at_boundary = 0
        self._source_at_boundary = StepSource.OPTIMIZER
        self._requesters: WeakIdentityMap[_Requester] = WeakIdentityMap()
        self._held = False
        self._links = b""
        self._begun = False
        self._has_announced = False  # a boundary, since the last beginning

    @property
    def current(self) -> int:
        """Number of the step under way, which is the number of boundaries' worth of steps so far."""
        return self._current

    @property
    def backwards(self) -> int:
        """How many backwards have started."""
        return self._backwards

    @property
    def skipped(self) -> int:
        """How many steps a gradient scaler skipped."""
        return self._skipped

    @property
    def listening(self) -> bool:
        """Whether anybody wants to know."""
        return bool(self._listeners)

    def add_listener(self, listener: StepListener) -> None:
        """Call `listener` after each boundary. Does nothing when it is there."""
        if listener not in self._listeners:
            self._listeners = (*self._listeners, listener)

    def remove_listener(self, listener: StepListener) -> None:
        """Stop calling `listener`. Does nothing when it is not there."""
        self._listeners = tuple(known for known in self._listeners if known != listener)

    def begin(self) -> int:
        """Return the number of the step under way, for a listener that begins inside it.

        From the second time on that step is numbered anew: a listener before may have handled a part of it,
        and ids follow from numbers.
        """
        with self._lock:
            if self._begun:
                self._current += 1
                self._has_announced = False
                for requester in self._requesters.values():
                    requester.count = self._current + requester.in_open_round
            self._begun = True
            return self._current

    def backward_started(self) -> None:
        """Note that gradients are about to be new."""
        # Unlocked: two threads that start at once may count as one, which still is a new backward for both.
        self._backwards += 1

    def step_skipped(self) -> None:
        """Note that the step about to end changes no parameter: its gradients were not finite."""
        with self._lock:
            self._skipped += 1

    def is_led_by(self, source: StepSource) -> bool:
        """Whether `source` makes the boundaries."""
        with self._lock:
            return self._source is source and self._has_requester(source)

    def expect(self, source: StepSource, owner: object, parts: int = 1) -> None:
        """Note that `owner` exists and may take part in iterations.

        Args:
            source: what `owner` is; a higher source than those seen so far takes over.
            owner: an object, held weakly.
            parts: parameter groups of an optimizer.
        """
        with self._lock:
            if source not in self.sources:
                return
            if source > self._source:
                self._take_over(source)
            if owner not in self._requesters:
                requester = _Requester(source, self._current, self._backwards_at_boundary, parts)
                requester.missing = source is self._source
                self._requesters[owner] = requester

    def advance(
        self, source: StepSource, owner: object, *, parts: int = 1, hold: bool = False, links: bytes = b""
    ) -> None:
        """Note that `owner` finished an iteration, or a part of one.

        Args:
            source: what `owner` is.
            owner: an object, held weakly.
            parts: parameter groups that an optimizer stepped. Its step counts only after a new backward.
            hold: announce no boundary before `release`, because a backward is still running.
            links: span contexts for the step that begins at the next boundary.
        """
        with self._announcing:
            self._announce(self._advance(source, owner, parts, hold, links))

    def _advance(
        self, source: StepSource, owner: object, parts: int, hold: bool, links: bytes
    ) -> tuple[int, bytes] | None:
        with self._lock:
            if source not in self.sources:
                return None
            if source > self._source or (source < self._source and not self._has_requester(self._source)):
                self._take_over(source)
            if source < self._source:
                return None
            if links:
                self._links = links
            requester = self._requesters.get(owner) or self._admit(source, owner, parts)
            if source is StepSource.OPTIMIZER and requester.backward == self._backwards:
                if requester.parts_done:
                    requester.parts_done += parts
            else:
                self._count(requester, parts)
            if requester.in_open_round and requester.parts_done >= requester.parts_expected:
                requester.missing = False
            self._held = self._held or hold
            return None if self._held else self._close_round()

    def release(self) -> None:
        """Announce the boundary held back while a backward was running, if there is one."""
        if not self._held:
            return
        with self._announcing:
            with self._lock:
                self._held = False
                boundary = self._close_round()
            self._announce(boundary)

    def forget(self, owner: object) -> None:
        """Wait for `owner` no longer."""
        with self._lock:
            self._requesters.pop(owner)

    def leave_out(self, owner: object) -> None:
        """Never wait for `owner`: it advances inside another requester."""
        with self._lock:
            requester = self._requesters.get(owner)
            if requester is not None:
                requester.regular = requester.missing = False

    def _admit(self, source: StepSource, owner: object, parts: int) -> _Requester:
        """Add a requester that was never expected, at its first advance."""
        peers_closed_it = any(
            requester.in_last_round for requester in self._requesters.values() if requester.source is source
        )
        lower_source_closed_it = (
            self._source_at_boundary < source and self._backwards_at_boundary == self._backwards
        )
        # It belongs to the iteration whose boundary was announced too early, not knowing of it.
        late = self._has_announced and (peers_closed_it or lower_source_closed_it)
        requester = _Requester(source, self._current - late, self._backwards_at_boundary, parts)
        requester.missing = True
        self._requesters[owner] = requester
        return requester

    def _count(self, requester: _Requester, parts: int) -> None:
        if requester.parts_done:
            self._learn_parts(requester)
        if requester.in_open_round:
            self._restart_round()
        requester.count = max(requester.count, self._current - 1) + 1
        requester.backward = self._backwards
        requester.parts_done = parts
        if requester.count > self._current or any(r.in_open_round for r in self._requesters.values()):
            requester.in_open_round = True
        else:
            requester.in_last_round = True

    def _learn_parts(self, requester: _Requester) -> None:
        if requester.parts_done < requester.parts_expected:
            requester.parts_expected = requester.parts_done
            requester.parts_settled = True
        elif not requester.parts_settled:
            requester.parts_expected = requester.parts_done

    def _restart_round(self) -> None:
        """A requester advances a second time before the round closed: those still missing are not regular."""
        for requester in self._requesters.values():
            requester.regular = requester.regular and not requester.missing
            requester.in_open_round = False
        self._wait_for_regular_ones()

    def _has_requester(self, source: StepSource) -> bool:
        return any(requester.source is source for requester in self._requesters.values())

    def _take_over(self, source: StepSource) -> None:
        self._source = source
        for requester in self._requesters.values():
            if requester.source is source:
                requester.count = self._current
        self._wait_for_regular_ones()

    def _wait_for_regular_ones(self) -> None:
        for requester in self._requesters.values():
            requester.missing = requester.regular and requester.source is self._source

    def _close_round(self) -> tuple[int, bytes] | None:
        if any(requester.missing for requester in self._requesters.values()):
            return None
        requesters = [r for r in self._requesters.values() if r.source is self._source]
        number = max((r.count for r in requesters if r.in_open_round), default=self._current)
        if number <= self._current:
            return None
        self._current = number
        self._has_announced = True
        self._backwards_at_boundary = self._backwards
        self._source_at_boundary = self._source
        for requester in requesters:
            requester.in_last_round = requester.in_open_round
            if requester.in_open_round:
                requester.count = number
                requester.in_open_round = False
        self._wait_for_regular_ones()
        links, self._links = self._links, b""
        return number, links

    def _announce(self, boundary: tuple[int, bytes] | None) -> None:
        if boundary is None:
            return
        for listener in self._listeners:
            with failures.guard("a step boundary was not handled"):
                listener(*boundary)


# Steps are a property of the process, as in torch.
process_steps = StepTracker()
os.register_at_fork(after_in_child=process_steps.start_over)
