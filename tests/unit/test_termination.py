"""Taking SIGTERM, where nobody else does, and giving it back."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator

import pytest

from otel_torchprof.live.termination import TerminationHandler


@pytest.fixture
def handler() -> Iterator[TerminationHandler]:
    handler = TerminationHandler(lambda: None)
    yield handler
    handler.remove()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def open_fds() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names alone


def test_it_is_taken_and_given_back(handler: TerminationHandler) -> None:
    before = open_fds()
    assert handler.install()
    assert not handler.install()
    (thread,) = (thread for thread in threading.enumerate() if thread.name == "otel-torchprof-sigterm")
    handler.remove()
    thread.join(timeout=30)
    assert not thread.is_alive()
    assert open_fds() == before


def test_a_handler_of_the_program_stays(handler: TerminationHandler) -> None:
    def own(*_: object) -> None: ...

    signal.signal(signal.SIGTERM, own)
    try:
        assert not handler.install()
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_who_is_woken_by_signals_goes_on_being_woken(handler: TerminationHandler) -> None:
    before = open_fds()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        signal.set_wakeup_fd(ours.fileno())
        try:
            assert not handler.install()
        finally:
            assert signal.set_wakeup_fd(-1) == ours.fileno()
    assert open_fds() == before


def test_outside_the_main_thread_nothing_is_done(handler: TerminationHandler) -> None:
    taken: list[bool] = []
    thread = threading.Thread(target=lambda: taken.append(handler.install()))
    thread.start()
    thread.join()
    assert taken == [False]
