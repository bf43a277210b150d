"""One log line a reason: the first at once, repeats every few minutes with the count of those between."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable


class ReasonLog:
    """Logs warnings keyed by reason, so that a collector that is down all night is one line, not a million.

    Holds no lock, which a fork could leave locked for ever: two threads at the same moment may both log.
    """

    def __init__(
        self,
        logger: logging.Logger,
        *,
        repeat_after_s: float = 300.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._repeat_after_s = repeat_after_s
        self._clock = clock
        self._last_logged: dict[str, float] = {}
        self._suppressed: dict[str, int] = {}

    def warn(self, reason: str, message: str) -> None:
        """Log `message` unless the same `reason` was logged less than `repeat_after_s` ago."""
        now = self._clock()
        last = self._last_logged.get(reason)
        if last is not None and now - last < self._repeat_after_s:
            self._suppressed[reason] = self._suppressed.get(reason, 0) + 1
            return
        self._last_logged[reason] = now
        suppressed = self._suppressed.pop(reason, 0)
        if suppressed:
            self._logger.warning(
                "otel-torchprof: %s (and %d times more since the last line)", message, suppressed
            )
        else:
            self._logger.warning("otel-torchprof: %s", message)
