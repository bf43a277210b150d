"""`objects_of` beside a search by hand, and while other threads build tuples."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator

import pytest

from otel_torchprof.recorder.live_objects import objects_of, subclasses_of


class Odd(type):
    """A metaclass whose classes have no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(cls, other: object) -> bool:
        raise AssertionError("code of a metaclass ran")


class OddThing(metaclass=Odd):
    pass


class Base:
    pass


class Derived(Base):
    pass


class Proxy:
    """It says that it is of another class."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise AssertionError("code of an object ran")


@pytest.fixture
def quick_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_subclasses_are_found_at_any_depth() -> None:
    assert set(subclasses_of(Base)) == {Base, Derived}


def test_objects_of_exactly_these_classes_are_found_and_no_code_of_others_runs() -> None:
    others = [Proxy(), OddThing()]
    base, derived = Base(), Derived()
    assert objects_of({Base}) == [base]
    assert set(objects_of(set(subclasses_of(Base)))) == {base, derived}
    assert objects_of(set()) == []
    assert len(others) == 2


@pytest.mark.usefixtures("quick_switches")
def test_threads_that_build_tuples_meanwhile_are_not_disturbed() -> None:
    failures: list[BaseException] = []
    stop = threading.Event()

    def build() -> None:
        while not stop.is_set():
            try:
                tuple(number for number in range(300))
            except SystemError as error:
                failures.append(error)

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    gc.collect()
    for _ in range(20):
        objects_of({Base})
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
