"""When a program without steps is told so."""

from __future__ import annotations

from otel_torchprof.live.missing_steps import PATIENCE_NS, MissingSteps


class Program:
    """Runs ops and takes steps as it is told; time passes likewise."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.ops = 0
        self.steps = False
        self._missing = MissingSteps(lambda: self.ops, lambda: self.steps, lambda: self.now_ns)

    def goes_on(self, *, ops: int, ns: int) -> bool:
        """Whether it is told after some more ops and time."""
        self.ops += ops
        self.now_ns += ns
        return self._missing.are_noticed()


def test_a_program_that_serves_is_told_once() -> None:
    program = Program()
    told = [program.goes_on(ops=10, ns=PATIENCE_NS // 3) for _ in range(20)]
    assert sum(told) == 1
    assert told.index(True) == 4


def test_time_begins_with_the_first_op() -> None:
    program = Program()
    assert not any(program.goes_on(ops=0, ns=PATIENCE_NS) for _ in range(5))
    assert not program.goes_on(ops=1, ns=0)
    assert not program.goes_on(ops=1, ns=PATIENCE_NS - 1)


def test_one_that_was_set_up_and_waits_for_work_is_not_told() -> None:
    program = Program()
    program.goes_on(ops=1_000, ns=1)
    program.goes_on(ops=1_000, ns=1)
    assert not any(program.goes_on(ops=0, ns=PATIENCE_NS) for _ in range(5))
    assert program.goes_on(ops=1, ns=1)


def test_one_with_steps_is_not_told_also_when_they_have_ended() -> None:
    program = Program()
    program.goes_on(ops=1, ns=1)
    program.steps = True
    program.goes_on(ops=1, ns=PATIENCE_NS)
    program.steps = False
    assert not any(program.goes_on(ops=1, ns=PATIENCE_NS) for _ in range(5))
