"""Processor time of blocks, on clocks of the test."""

from __future__ import annotations

import os
import threading

import pytest

from otel_torchprof.telemetry.work_time import WorkTime

TIMEOUT_S = 60.0


class ThreadClocks:
    """A clock for each thread, as processor time has."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    def __call__(self) -> int:
        return getattr(self._of_thread, "now_ns", 1_000)

    def work(self, duration_ns: int) -> None:
        self._of_thread.now_ns = self() + duration_ns


def test_blocks_add_up_and_what_is_between_them_does_not() -> None:
    clocks = ThreadClocks()
    spent = WorkTime(clocks)
    assert spent.total_ns == 0
    for _ in range(3):
        with spent.measured():
            clocks.work(5)
        clocks.work(100)
    assert spent.total_ns == 15


def test_a_block_inside_another_counts_once() -> None:
    clocks = ThreadClocks()
    spent = WorkTime(clocks)
    with spent.measured():
        clocks.work(1)
        with spent.measured():
            clocks.work(10)
        assert spent.total_ns == 0
        clocks.work(100)
    assert spent.total_ns == 111


def test_a_block_that_raises_counts() -> None:
    clocks = ThreadClocks()
    spent = WorkTime(clocks)

    def fail() -> None:
        with spent.measured():
            clocks.work(7)
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        fail()
    with spent.measured():
        clocks.work(1)
    assert spent.total_ns == 8


def test_threads_have_blocks_of_their_own() -> None:
    clocks = ThreadClocks()
    spent = WorkTime(clocks)

    def work() -> None:
        with spent.measured():
            clocks.work(20)

    with spent.measured():
        clocks.work(3)
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT_S)
        assert spent.total_ns == 80
    assert spent.total_ns == 83


def test_a_child_measures_though_it_was_forked_inside_a_block_under_the_lock() -> None:
    clocks = ThreadClocks()
    spent = WorkTime(clocks)
    held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with spent._lock:
            held.set()
            let_go.wait(TIMEOUT_S)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(TIMEOUT_S)
    child = os.fork()
    if child == 0:
        passed = False
        try:
            with spent.measured():
                clocks.work(4)
            passed = spent.total_ns == 4
        finally:
            os._exit(0 if passed else 1)
    assert os.waitpid(child, 0)[1] == 0
    let_go.set()
    holder.join(TIMEOUT_S)
