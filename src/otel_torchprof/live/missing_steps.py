"""Noticing a program whose steps nobody ends: it works and works, and nothing of it is ever recorded."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

_logger = logging.getLogger(__name__)

PATIENCE_NS = 60_000_000_000


class MissingSteps:
    """Notices once that steps are missing: ops run, also a minute after the first, and no step has ended.

    Args:
        counted_ops: how many ops have run, as far as they are counted.
        has_steps: whether a step has ended, or one is under way that may take as long as it likes.
        clock_ns: monotonic.
    """

    def __init__(
        self,
        counted_ops: Callable[[], int],
        has_steps: Callable[[], bool],
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._counted_ops = counted_ops
        self._has_steps = has_steps
        self._clock_ns = clock_ns
        self._first_op_ns: int | None = None
        # When patience ended: setting a program up takes ops too.
        self._counted_by_then: int | None = None
        self._is_settled = False

    def are_noticed(self) -> bool:
        """Whether to say so now. Asked now and then; True at most once."""
        if self._is_settled:
            return False
        if self._has_steps():
            self._is_settled = True
            return False
        counted, now_ns = self._counted_ops(), self._clock_ns()
        if self._first_op_ns is None:
            if counted:
                self._first_op_ns = now_ns
        elif self._counted_by_then is None:
            if now_ns - self._first_op_ns >= PATIENCE_NS:
                self._counted_by_then = counted
        elif counted > self._counted_by_then:
            self._is_settled = True
            return True
        return False


def say_that_steps_are_missing() -> None:
    """To a program that goes on."""
    _logger.warning(
        "otel-torchprof: no spans are sent, as ops run and no step has ended for a minute: in a program that "
        "serves set OTEL_PYTHON_TORCHPROF_STEP=module, in any other call otel_torchprof.step() where one ends"
    )
