"""The thread that checks: as long as it is wanted, whatever the check does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from otel_torchprof.live.periodic_check import PeriodicCheck
from otel_torchprof.recorder.failures import failures

TIMEOUT_S = 60.0
THREAD = "otel-torchprof-guard"


class Counting:
    def __init__(self, *, fails: bool = False) -> None:
        self.count = 0
        self.changed = threading.Condition()
        self.fails = fails

    def __call__(self) -> None:
        with self.changed:
            self.count += 1
            self.changed.notify_all()
        if self.fails:
            raise OSError("gone")

    def wait_for(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.count >= count, TIMEOUT_S)


@contextmanager
def started(check: Counting) -> Iterator[PeriodicCheck]:
    periodic = PeriodicCheck(check, period_s=0.001)
    periodic.start()
    try:
        yield periodic
    finally:
        periodic.stop()
        for thread in checking():
            thread.join(TIMEOUT_S)


def checking() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == THREAD]


def test_it_checks_again_and_again_on_one_thread_of_its_own() -> None:
    check = Counting()
    with started(check) as periodic:
        periodic.start()
        check.wait_for(3)
        (thread,) = checking()
        assert thread.daemon
    assert checking() == []
    count = check.count
    periodic.stop()
    periodic.start()
    check.wait_for(count + 1)
    periodic.stop()


def test_a_check_that_fails_is_said_once_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_counts", type(failures._counts)())
    check = Counting(fails=True)
    with started(check):
        check.wait_for(3)
    assert failures.count("the cost of measuring was not checked") >= 2


def test_without_threads_nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_counts", type(failures._counts)())

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    check = Counting()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with started(check):
            assert failures.count("the cost of measuring is not watched") == 1
    with started(check):  # another try later
        check.wait_for(1)
