"""SIGTERM, by which schedulers and torchrun end a program: what was recorded is sent first.

By default Python dies of it at once, and what waits to be sent is lost. The signal is taken only where the
program leaves it alone, and the program ends of it all the same, a few seconds later at most: also while its
main thread is stuck in a library, where no handler written in Python would run.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import threading
from collections.abc import Callable

from otel_torchprof.own_threads import OWN_THREAD_PREFIX

_MAX_SIGNALS = 64


class TerminationHandler:
    """Calls `flush` when SIGTERM arrives, on a thread of its own, and ends the process by that signal then.

    Args:
        flush: bounded in time; what it raises is passed over.
    """

    def __init__(self, flush: Callable[[], object]) -> None:
        self._flush = flush
        self._read_fd = self._write_fd = -1
        self._mask = threading.local()  # of signals, as it was when the thread forked

    def install(self) -> bool:
        """Take the signal. False where others do, or are woken by signals, and outside the main thread."""
        if threading.current_thread() is not threading.main_thread():
            return False
        if self._write_fd >= 0 or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return False
        self._read_fd, self._write_fd = os.pipe()
        os.set_blocking(self._write_fd, False)
        # Python writes the number of a signal there at once, whatever the main thread is doing.
        others_fd = signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        if others_fd >= 0:
            signal.set_wakeup_fd(others_fd)
            self._close()
            os.close(self._read_fd)
            return False
        signal.signal(signal.SIGTERM, self._handle)
        threading.Thread(
            target=self._wait,
            args=(self._read_fd,),
            name=f"{OWN_THREAD_PREFIX}sigterm",
            daemon=True,
        ).start()
        return True

    def remove(self) -> None:
        """Leave the signal alone again."""
        if self._write_fd < 0 or threading.current_thread() is not threading.main_thread():
            return
        if self._is_installed():
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        fd = signal.set_wakeup_fd(-1)
        if fd not in (-1, self._write_fd):
            signal.set_wakeup_fd(fd)
        self._close()

    def before_fork(self) -> None:
        """Hold the signal back: one that comes to a child that is not ready for it would be lost."""
        self._mask.before_fork = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def after_fork_in_parent(self) -> None:
        """Let the signal come again."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask.before_fork)

    def after_fork_in_child(self) -> None:
        """Leave the signal alone: no thread waits for it here, and children are to end at once."""
        if self._write_fd >= 0:
            self.remove()
            os.close(self._read_fd)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask.before_fork)

    def _is_installed(self) -> bool:
        return signal.getsignal(signal.SIGTERM) == self._handle

    def _handle(self, number: int, _frame: object) -> None:
        # Again, for when somebody else is told of signals by now.
        with contextlib.suppress(OSError):
            os.write(self._write_fd, bytes([number]))

    def _wait(self, read_fd: int) -> None:
        while signals := os.read(read_fd, _MAX_SIGNALS):
            if signal.SIGTERM in signals and self._is_installed():
                with contextlib.suppress(Exception):
                    self._flush()
                # Python's own function works in the main thread only.
                ctypes.CDLL(None).signal(int(signal.SIGTERM), None)
                os.kill(os.getpid(), signal.SIGTERM)
        os.close(read_fd)

    def _close(self) -> None:
        fd, self._write_fd = self._write_fd, -1
        os.close(fd)  # which ends the thread
