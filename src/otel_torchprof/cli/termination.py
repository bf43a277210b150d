"""SIGTERM as an exception, so that a command that is told to end cleans up as it does when interrupted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Terminated(BaseException):
    """SIGTERM arrived. No `Exception`, as nothing but the command as a whole is to handle it."""


@contextmanager
def termination_raises() -> Iterator[None]:
    """Within it the first SIGTERM raises `Terminated` in the main thread; the next ends the process at once.

    Changes nothing where somebody handles or ignores SIGTERM already, and outside the main thread.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise Terminated
