"""What share of the program's time measuring takes, and when that is too much for too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# Longer than any stretch that sampling counts whole before it looks at what that cost.
WINDOW_NS = 30_000_000_000
WINDOWS_TO_TRIP = 3


class OverheadGuard:
    """Cuts time into windows and compares what measuring took of each with a bound.

    Args:
        max_share: of wall time, that measuring may take.
        cost_ns: what measuring has taken so far, of all threads together.
        clock_ns: a monotonic clock.
    """

    def __init__(
        self,
        max_share: float,
        cost_ns: Callable[[], float],
        *,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.max_share = max_share
        self._cost_ns = cost_ns
        self._clock_ns = clock_ns
        self.start_over_in_child()

    def start_over(self) -> None:
        """Begin with a first window now."""
        with self._lock:
            self._last_share: float | None = None
            self._windows_over = 0
            self._begin_window(self._clock_ns(), self._cost_ns())

    def start_over_in_child(self) -> None:
        """The same in a forked child, where another thread of the parent may hold the lock."""
        self._lock = threading.RLock()  # a signal handler may switch modes
        self.start_over()

    @property
    def share(self) -> float:
        """Of the last whole window; of the time since the start before one was whole."""
        with self._lock:
            if self._last_share is not None:
                return self._last_share
            return self._share_of_window(self._clock_ns(), self._cost_ns())

    def is_over(self) -> bool:
        """Whether a window ends now that is the last of too many in a row above the bound.

        To be called every second or so: it ends the window under way once that is long enough. After True the
        count begins anew.
        """
        with self._lock:
            now_ns, cost_ns = self._clock_ns(), self._cost_ns()
            if now_ns - self._start_ns < WINDOW_NS:
                return False
            self._last_share = self._share_of_window(now_ns, cost_ns)
            self._begin_window(now_ns, cost_ns)
            self._windows_over = self._windows_over + 1 if self._last_share > self.max_share else 0
            if self._windows_over < WINDOWS_TO_TRIP:
                return False
            self._windows_over = 0
            return True

    def _begin_window(self, now_ns: int, cost_ns: float) -> None:
        self._start_ns = now_ns
        self._cost_at_start_ns = cost_ns

    def _share_of_window(self, now_ns: int, cost_ns: float) -> float:
        wall_ns = now_ns - self._start_ns
        return max(cost_ns - self._cost_at_start_ns, 0.0) / wall_ns if wall_ns > 0 else 0.0
