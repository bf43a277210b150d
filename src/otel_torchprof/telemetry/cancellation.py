"""The order to end what is being sent."""

from __future__ import annotations

import threading


class Cancellation:
    """As `threading.Event`, which a signal handler must not set while its own thread is inside it."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.RLock())
        self._is_set = False

    def is_set(self) -> bool:
        """Whether `set` was called."""
        return self._is_set

    def set(self) -> None:
        """Give the order."""
        with self._changed:
            self._is_set = True
            self._changed.notify_all()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the order; False when it did not come within `timeout_s`."""
        with self._changed:
            return self._changed.wait_for(self.is_set, timeout_s)
