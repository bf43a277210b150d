"""Which steps are counted: estimates without bias, under a bound, on a clock of the test."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.recorder.step_sampling import (
    MAX_STEPS_PER_BLOCK,
    STEPLESS_AFTER_NS,
    SampledCounts,
    SamplingMode,
    StepSampler,
)

OP_NS = 100
MS = 1_000_000


class Program:
    """Counts the ops of its steps as it is told to, which each takes `op_ns`, on a clock that it moves."""

    def __init__(self, switch_ns: int = 0, op_ns: int = OP_NS) -> None:
        self.now_ns = 1_000
        self.counted = 0
        self.weight = 1
        self.weights: list[int] = []  # of each step that has ended
        self.calls = 0
        self.total_ns = 0
        self._switch_ns = switch_ns
        self._op_ns = op_ns

    def sample(self, weight: int) -> None:
        if weight != self.weight:
            self.now_ns += self._switch_ns
        self.weight = weight

    def run(self, ops: int, wall_ns: int, op_total_ns: int = 0) -> None:
        """A step, that takes `wall_ns` when it is counted."""
        self.weights.append(self.weight)
        self.now_ns += wall_ns if self.weight else max(1, wall_ns - ops * self._op_ns)
        if self.weight:
            self.counted += ops
            self.calls += self.weight * ops
            self.total_ns += self.weight * op_total_ns

    def sampler(
        self, seed: int = 0, mode: SamplingMode = "sampled", max_overhead: float = 0.01
    ) -> StepSampler:
        return StepSampler(
            self,
            mode=mode,
            max_overhead=max_overhead,
            op_cost_ns=OP_NS,
            choice=random.Random(seed),
            clock_ns=lambda: self.now_ns,
        )


def run_steps(program: Program, sampler: StepSampler, steps: Sequence[tuple[int, int]]) -> None:
    """Each step has so many ops and takes so long."""
    for ops, wall_ns in steps:
        program.run(ops, wall_ns, op_total_ns=wall_ns // 2)
        sampler.step_boundary()


def test_every_step_is_counted_while_that_is_cheap_enough() -> None:
    program = Program()
    sampler = program.sampler()
    run_steps(program, sampler, [(10, MS)] * 50)
    assert set(program.weights) == {1}
    assert sampler.block_size == 1
    assert sampler.switching_ns == 0


def test_the_block_is_as_long_as_the_bound_needs() -> None:
    # All ops of a step cost 10 % of it: one step in ten.
    program = Program()
    sampler = program.sampler()
    run_steps(program, sampler, [(1000, MS)] * 362)
    # The first is not whole, the second is measured; each block after it has one counted step. Of weight
    # twenty, as an op may cost twice what it was found to, until eight of them were compared with the others.
    assert program.weights[:2] == [1, 1]
    blocks = [program.weights[i : i + 20] for i in range(2, 162, 20)]
    assert all(sorted(block) == [0] * 19 + [20] for block in blocks)
    blocks = [program.weights[i : i + 10] for i in range(162, 362, 10)]
    assert all(sorted(block) == [0] * 9 + [10] for block in blocks)
    assert len({block.index(10) for block in blocks}) > 5
    assert sampler.block_size == 10


def test_what_counted_steps_take_longer_counts_as_cost() -> None:
    # Ops cost 10 % of a step by what one costs in a loop, and 30 % in truth.
    program = Program(op_ns=3 * OP_NS)
    sampler = program.sampler()
    run_steps(program, sampler, [(1000, MS)] * 600)
    assert sampler.block_size == 30


@pytest.mark.parametrize("seed", range(5))
def test_steps_that_differ_are_not_taken_for_the_cost_of_counting(seed: int) -> None:
    program = Program()
    sampler = program.sampler(seed)
    lasting = random.Random(seed)
    run_steps(program, sampler, [(1000, round(MS * lasting.uniform(0.7, 1.3))) for _ in range(2000)])
    assert 10 <= sampler.block_size <= 25


def test_full_counting_counts_every_step_whatever_it_costs() -> None:
    program = Program()
    sampler = program.sampler(mode="full")
    run_steps(program, sampler, [(5000, MS)] * 30)
    assert set(program.weights) == {1}


def test_switching_counts_as_cost() -> None:
    program = Program(switch_ns=MS // 20)
    sampler = program.sampler()
    run_steps(program, sampler, [(1000, MS)] * 800)
    # 10 % for the ops and 10 % for switching on and off.
    assert sampler.block_size == 20
    switches = sum(before != after for before, after in pairwise([1, *program.weights, program.weight]))
    assert sampler.switching_ns == switches * MS // 20 > 0


def test_blocks_are_bounded() -> None:
    program = Program()
    sampler = program.sampler(max_overhead=1e-9)
    run_steps(program, sampler, [(1000, MS)] * 10)
    assert sampler.block_size == MAX_STEPS_PER_BLOCK


def test_a_slow_step_does_not_hide_what_counting_costs() -> None:
    program = Program()
    sampler = program.sampler()
    run_steps(program, sampler, [(1000, 3600 * 1000 * MS), *[(1000, MS)] * 3])
    assert sampler.block_size == 20  # start-up before the first boundary tells nothing
    run_steps(program, sampler, [(1000, 60_000 * MS if i % 10 == 0 else MS) for i in range(200)])
    assert sampler.block_size >= 5


@given(
    st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 3 * MS)), min_size=1, max_size=120),
    st.integers(0, 2**32),
)
def test_every_whole_block_has_one_counted_step_of_its_weight(
    steps: list[tuple[int, int]], seed: int
) -> None:
    program = Program()
    sampler = program.sampler(seed)
    sizes: list[int] = []
    for step in steps:
        sizes.append(sampler.block_size)
        run_steps(program, sampler, [step])
    position = 0
    while position < len(steps):
        block = program.weights[position : position + sizes[position]]
        if len(block) == sizes[position]:
            assert sorted(block) == [0] * (len(block) - 1) + [len(block)]
        else:
            assert set(block) <= {0, sizes[position]}
        position += sizes[position]


def uneven_step(number: int) -> tuple[int, int]:
    """Steps that differ, with a period that one step in N taken regularly would meet or miss."""
    ops = 800 + 400 * (number % 2) + 3000 * (number % 10 == 3)
    return ops, MS + 700_000 * (number % 7 == 0)


def test_sampled_sums_are_unbiased() -> None:
    runs, steps = 200, [uneven_step(number) for number in range(400)]
    true_calls = sum(ops for ops, _ in steps)
    true_ns = sum(wall_ns // 2 for _, wall_ns in steps)
    calls: list[int] = []
    total_ns: list[int] = []
    for seed in range(runs):
        program = Program()
        run_steps(program, program.sampler(seed), steps)
        assert max(program.weights) > 5
        calls.append(program.calls)
        total_ns.append(program.total_ns)
    for estimates, truth in ((calls, true_calls), (total_ns, true_ns)):
        standard_error = stdev(estimates) / runs**0.5
        assert 0 < standard_error < 0.02 * truth
        assert abs(mean(estimates) - truth) <= 3 * standard_error


def test_without_steps_slices_of_time_are_counted() -> None:
    program = Program()
    sampler = program.sampler()

    def run_slices(slices: int) -> None:
        for _ in range(slices):
            program.run(1000, MS)
            sampler.tick(program.now_ns)

    run_slices(50)
    assert set(program.weights) == {1}  # steps may still come
    program.now_ns += STEPLESS_AFTER_NS
    run_slices(122)
    blocks = [program.weights[i : i + 20] for i in range(52, 172, 20)]
    assert all(sorted(block) == [0] * 19 + [20] for block in blocks)


def test_steps_take_over_from_slices_and_ticks_between_steps_are_nothing() -> None:
    program = Program()
    sampler = program.sampler()
    program.now_ns += STEPLESS_AFTER_NS
    sampler.tick(program.now_ns)
    for _ in range(100):
        for _ in range(4):
            program.run(250, MS // 4)
            sampler.tick(program.now_ns)
        sampler.step_boundary(7, b"")
    # Ticks took part until the first step; from there on its four quarters have one weight.
    quarters = program.weights[4:]
    assert all(len(set(quarters[i : i + 4])) == 1 for i in range(0, len(quarters), 4))
    assert 0 in quarters


def test_a_stopped_sampler_switches_nothing() -> None:
    program = Program()
    sampler = program.sampler()
    run_steps(program, sampler, [(1000, MS)] * 5)
    sampler.stop()
    sampler.stop()
    program.weight = 3
    run_steps(program, sampler, [(1000, MS)] * 30)
    program.now_ns += STEPLESS_AFTER_NS
    sampler.tick(program.now_ns)
    assert set(program.weights[5:]) == {3}


def test_the_sampler_of_a_parent_does_nothing_in_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program()
    sampler = program.sampler()
    run_steps(program, sampler, [(1000, MS)] * 5)
    program.weight = 3
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)
    run_steps(program, sampler, [(1000, MS)] * 30)
    assert set(program.weights[5:]) == {3}


class Refusing(Program):
    """Cannot be switched."""

    def sample(self, weight: int) -> None:
        raise RuntimeError(f"not {weight}")


@pytest.mark.parametrize("pass_time", [StepSampler.step_boundary, lambda sampler: sampler.tick(10**12)])
def test_a_failure_stays_inside(
    pass_time: Callable[[StepSampler], None], caplog: pytest.LogCaptureFixture
) -> None:
    sampler = Refusing().sampler()
    with caplog.at_level(logging.CRITICAL):
        pass_time(sampler)
    assert sampler.block_size == 1


@pytest.mark.parametrize(("max_overhead", "op_cost_ns"), [(0, 1), (-1, 1), (float("nan"), 1), (0.01, 0)])
def test_unusable_numbers_are_refused(max_overhead: float, op_cost_ns: float) -> None:
    counts: SampledCounts = Program()
    with pytest.raises(ValueError, match="must be above 0"):
        StepSampler(counts, max_overhead=max_overhead, op_cost_ns=op_cost_ns)
