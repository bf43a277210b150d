"""The step count: the maximum over requesters, one boundary an iteration, whoever takes part."""

from __future__ import annotations

import gc
import logging
import sys
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.recorder.steps import StepSource, StepTracker, _Requester

OPTIMIZER, SCALER, EXPLICIT = StepSource


class Owner:
    """Stands for an optimizer or a scaler."""


class Boundaries(StepTracker):
    def __init__(self, sources: frozenset[StepSource] = frozenset(StepSource)) -> None:
        super().__init__(sources)
        self.numbers: list[int] = []
        self.links: list[bytes] = []
        self.add_listener(self._note)

    def _note(self, number: int, links: bytes) -> None:
        self.numbers.append(number)
        self.links.append(links)

    def step(self, *owners: object) -> None:
        """Give each optimizer a backward and a step."""
        for owner in owners:
            self.backward_started()
            self.advance(OPTIMIZER, owner)


@given(st.integers(1, 6), st.integers(1, 8), st.booleans())
def test_one_boundary_an_iteration_however_many_take_part(
    owner_count: int, iterations: int, one_backward: bool
) -> None:
    tracker = Boundaries()
    owners = [Owner() for _ in range(owner_count)]
    for owner in owners:
        tracker.expect(OPTIMIZER, owner)
    for iteration in range(iterations):
        for position, owner in enumerate(owners):
            if position == 0 or not one_backward:
                tracker.backward_started()
            assert tracker.numbers == list(range(1, iteration + 1))
            tracker.advance(OPTIMIZER, owner)
    assert tracker.numbers == list(range(1, iterations + 1))


@given(st.lists(st.sets(st.integers(0, 3), min_size=1), max_size=30))
def test_whatever_took_part_before_a_steady_loop_gets_a_boundary_a_step(rounds: list[set[int]]) -> None:
    tracker = Boundaries()
    owners = [Owner() for _ in range(4)]
    for owner in owners:
        tracker.expect(OPTIMIZER, owner)
    for taking_part in rounds:
        tracker.step(*(owners[index] for index in sorted(taking_part)))
    assert tracker.current <= len(rounds)
    assert tracker.numbers == sorted(set(tracker.numbers))
    # Each of the others is waited for once at most.
    tracker.step(*[owners[0]] * 5)
    announced, current = len(tracker.numbers), tracker.current
    tracker.step(*[owners[0]] * 7)
    assert tracker.current == current + 7
    assert len(tracker.numbers) == announced + 7


def test_a_dead_requester_is_forgotten_and_not_waited_for() -> None:
    tracker = Boundaries()
    first, second = Owner(), Owner()
    for owner in (first, second):
        tracker.expect(OPTIMIZER, owner)
    tracker.step(first, second)
    del second, owner
    gc.collect()
    tracker.step(first)
    tracker.step(first)
    assert tracker.numbers == [1, 2, 3]


def test_owners_that_are_equal_and_have_no_hash_count_each_for_itself() -> None:
    class Equal(Owner):
        __hash__ = None  # type: ignore[assignment]

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Equal)

    tracker = Boundaries()
    owners = [Equal(), Equal()]
    for owner in owners:
        tracker.expect(OPTIMIZER, owner)
    for iteration in range(3):
        tracker.step(owners[0])
        assert tracker.numbers == list(range(1, iteration + 1))
        tracker.step(owners[1])
        assert tracker.numbers == list(range(1, iteration + 2))
    tracker.leave_out(owners[1])
    tracker.step(owners[0])
    assert tracker.numbers == [1, 2, 3, 4]


def test_a_new_owner_where_an_old_one_was_starts_afresh() -> None:
    tracker = Boundaries()
    for _ in range(50):  # CPython gives the same address again
        owner = Owner()
        tracker.expect(OPTIMIZER, owner)
        tracker.step(owner)
        del owner
    assert tracker.current == 50


def test_an_owner_that_never_steps_is_waited_for_once() -> None:
    tracker = Boundaries()
    busy, idle = Owner(), Owner()
    for owner in (busy, idle):
        tracker.expect(OPTIMIZER, owner)
    for _ in range(4):
        tracker.step(busy)
    assert tracker.numbers == [2, 3, 4]


def test_training_goes_on_with_an_optimizer_that_waited_for_its_turn() -> None:
    tracker = Boundaries()
    first, second = Owner(), Owner()
    for owner in (first, second):
        tracker.expect(OPTIMIZER, owner)
    for _ in range(10):
        tracker.step(first)
    for _ in range(10):
        tracker.step(second)
    assert tracker.current == 19  # its first step could belong to the last one of the other


def test_parts_that_vary_do_not_lose_steps() -> None:
    tracker = Boundaries()
    owner = Owner()
    tracker.expect(OPTIMIZER, owner, parts=3)
    for parts in (3, 1, 3, 2, 1):
        tracker.backward_started()
        for _ in range(parts):
            tracker.advance(OPTIMIZER, owner)
    assert tracker.current == 5


def test_a_held_boundary_comes_with_the_release_only() -> None:
    tracker = Boundaries()
    owner = Owner()
    tracker.backward_started()
    tracker.advance(OPTIMIZER, owner, hold=True)
    assert tracker.numbers == []
    tracker.release()
    tracker.release()
    assert tracker.numbers == [1]


def test_a_higher_source_takes_over_without_counting_twice() -> None:
    tracker = Boundaries()
    optimizer, program = Owner(), Owner()
    tracker.step(optimizer)
    tracker.advance(EXPLICIT, program)  # the same iteration
    tracker.step(optimizer)
    tracker.advance(EXPLICIT, program)
    assert tracker.numbers == [1, 2]


def test_explicit_steps_before_the_first_optimizer_step_count() -> None:
    tracker = Boundaries()
    program = Owner()
    for _ in range(3):
        tracker.advance(EXPLICIT, program)
    assert tracker.numbers == [1, 2, 3]


def test_explicit_steps_go_on_with_another_requester() -> None:
    tracker = Boundaries()
    first, second = Owner(), Owner()
    tracker.advance(EXPLICIT, first)
    tracker.forget(first)
    tracker.advance(EXPLICIT, second)
    assert tracker.numbers == [1, 2]


def test_lower_sources_count_again_when_the_higher_requester_is_forgotten() -> None:
    tracker = Boundaries()
    optimizer, program = Owner(), Owner()
    tracker.expect(OPTIMIZER, optimizer)
    tracker.advance(EXPLICIT, program)
    tracker.step(optimizer)
    assert tracker.numbers == [1]
    tracker.forget(program)
    tracker.step(optimizer)
    assert tracker.numbers == [1, 2]


def test_sources_that_are_switched_off_make_no_boundaries() -> None:
    tracker = Boundaries(frozenset({OPTIMIZER, SCALER}))
    optimizer, program = Owner(), Owner()
    tracker.advance(EXPLICIT, program)
    tracker.step(optimizer)
    assert tracker.numbers == [1]


def test_links_go_to_the_step_that_begins() -> None:
    tracker = Boundaries()
    program = Owner()
    tracker.advance(EXPLICIT, program, links=b"x" * 24)
    tracker.advance(EXPLICIT, program)
    assert tracker.links == [b"x" * 24, b""]


def test_a_listener_that_fails_is_logged_once_and_hides_nothing(caplog: pytest.LogCaptureFixture) -> None:
    tracker = StepTracker()
    numbers: list[int] = []

    def fail(number: int, links: bytes) -> None:
        raise LookupError("listener")

    tracker.add_listener(fail)
    tracker.add_listener(lambda number, links: numbers.append(number))
    with caplog.at_level(logging.WARNING, logger="otel_torchprof"):
        for _ in range(3):
            tracker.advance(EXPLICIT, test_links_go_to_the_step_that_begins)
    assert numbers == [1, 2, 3]
    assert sum("LookupError: listener" in line for line in caplog.messages) <= 1
    tracker.remove_listener(fail)
    assert tracker.listening


@given(st.integers(1, 4), st.integers(0, 3), st.integers(0, 3))
def test_who_begins_later_meets_no_number_again(owners: int, before: int, stepped: int) -> None:
    tracker = Boundaries()
    optimizers = [Owner() for _ in range(owners)]
    assert tracker.begin() == 0
    for _ in range(before):
        tracker.step(*optimizers)
    tracker.step(*optimizers[: min(stepped, owners - 1)])  # inside an iteration
    numbers = [0, *tracker.numbers, tracker.begin()]
    tracker.numbers.clear()
    for _ in range(4):
        tracker.step(*optimizers)
    assert len(tracker.numbers) >= 3
    numbers += tracker.numbers
    assert numbers == sorted(set(numbers))


def test_a_step_that_interrupts_the_counting_of_another_does_not_hang() -> None:
    other = Owner()

    class Interrupted(Boundaries):
        """Steps once more in the middle of counting, where a signal handler may run as well."""

        interruptions = 1

        def _count(self, requester: _Requester, parts: int) -> None:
            if self.interruptions:
                self.interruptions -= 1
                self.step(other)
            super()._count(requester, parts)

    tracker = Interrupted()
    training = threading.Thread(target=tracker.step, args=(Owner(),), daemon=True)
    training.start()
    training.join(30)
    assert not training.is_alive()
    assert tracker.numbers


def test_threads_that_step_at_once_announce_every_step_in_order() -> None:
    """A boundary that comes out of order is no step of its own to who records."""
    steps_each, thread_count = 500, 4
    tracker, program = Boundaries(), Owner()
    begin_together = threading.Barrier(thread_count)

    def step() -> None:
        begin_together.wait()
        for _ in range(steps_each):
            tracker.advance(EXPLICIT, program)

    before_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=step) for _ in range(thread_count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before_s)
    assert tracker.numbers == list(range(1, steps_each * thread_count + 1))
