"""What counting an op costs, found from ops that a stand-in times."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from otel_torchprof.recorder.op_cost import ASSUMED_OP_COST_NS, measure_op_cost_ns


@dataclass
class Machine:
    """Counts, and times ops: `took_ns` gives what an op of a turn takes, given whether it is counted."""

    took_ns: Callable[[int, bool], float]
    records: bool = False
    weight: int = 0
    turns: int = 0
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.calls.append("start")

    def sample(self, weight: int) -> None:
        self.weight = weight

    def stop(self) -> None:
        self.calls.append("stop")

    def time_ops(self, count: int) -> int:
        self.turns += 1
        return round(count * self.took_ns(self.turns, self.weight > 0))


def measured(machine: Machine) -> float:
    cost_ns = measure_op_cost_ns(machine, machine)
    assert machine.calls == ["start", "stop"]
    return cost_ns


def test_it_is_what_an_op_takes_longer_while_it_is_counted() -> None:
    assert measured(Machine(lambda _, is_counted: 290 if is_counted else 40)) == pytest.approx(250)


def test_turns_that_were_interrupted_do_not_count() -> None:
    def took_ns(turn: int, is_counted: bool) -> float:
        return (290 if is_counted else 40) + (1e6 if turn % 5 == 0 else 0)

    assert measured(Machine(took_ns)) == pytest.approx(250)


@pytest.mark.parametrize("counted_ns", [0, 30, 40], ids=["refused", "faster", "the same"])
def test_without_a_figure_that_can_be_one_it_is_assumed(counted_ns: float) -> None:
    assert measured(Machine(lambda _, is_counted: counted_ns if is_counted else 40)) == ASSUMED_OP_COST_NS


def test_nothing_runs_while_anyone_records() -> None:
    machine = Machine(lambda _, is_counted: 290 if is_counted else 40, records=True)
    assert measure_op_cost_ns(machine, machine) == ASSUMED_OP_COST_NS
    assert (machine.turns, machine.calls) == (0, [])


def test_an_error_leaves_nothing_counting() -> None:
    def fail(_: int, is_counted: bool) -> float:
        if is_counted:
            raise OSError("torn down")
        return 40

    machine = Machine(fail)
    with pytest.raises(OSError, match="torn down"):
        measure_op_cost_ns(machine, machine)
    assert machine.calls == ["start", "stop"]
