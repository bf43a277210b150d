"""How long Python's garbage collector held the program up, by generation."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping


class GcPauses:
    """Counts from `start` to `stop`. Holds no lock: the collector runs on one thread at a time.

    Args:
        clock_ns: any steady clock.
    """

    def __init__(self, clock_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._clock_ns = clock_ns
        self.start_over()

    def start_over(self) -> None:
        """Count from zero: in a forked child."""
        self._began_ns: int | None = None
        self._pauses_ns = [0, 0, 0]

    @property
    def pauses_ns(self) -> list[int]:
        """Nanoseconds by generation, since it was made."""
        return list(self._pauses_ns)

    def start(self) -> None:
        """Begin to count. Idempotent."""
        if self._on_gc not in gc.callbacks:
            gc.callbacks.append(self._on_gc)

    def stop(self) -> None:
        """Stop counting. Idempotent."""
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)
        self._began_ns = None

    def _on_gc(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._began_ns = self._clock_ns()
        elif self._began_ns is not None:
            generation = min(info["generation"], len(self._pauses_ns) - 1)
            self._pauses_ns[generation] += self._clock_ns() - self._began_ns
            self._began_ns = None
