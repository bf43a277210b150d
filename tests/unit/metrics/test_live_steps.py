"""Steps as they end: which are counted, as what, and which exemplars name a span that exists."""

from __future__ import annotations

from collections.abc import Mapping

from otel_torchprof.metrics.families import HistogramPoint, NumberPoint, Point
from otel_torchprof.metrics.live_steps import LiveSteps
from otel_torchprof.semconv_metrics import (
    DATALOADER_WAIT,
    STEP_DURATION,
    STEP_LAST_TIMESTAMP,
    STEP_NUMBER,
    STEP_SKIPPED,
)

UNIX_NS = 1_700_000_000_000_000_000
TRACE_ID, SPAN_ID = 0xABC, 0xDEF


class Program:
    """A program whose clock, backwards and skipped steps a test sets."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.backwards = 0
        self.skipped = 4
        self.steps = LiveSteps(
            lambda: self.backwards,
            lambda: self.skipped,
            clock_ns=lambda: self.now_ns,
            unix_ns=lambda: UNIX_NS + self.now_ns,
        )
        self._number = 0
        self.steps.step_began(0)

    def step(self, duration_ms: int = 4, *, backward: bool = True) -> int:
        """Ends a step; the number of the next."""
        self.now_ns += duration_ms * 1_000_000
        self.backwards += backward
        self._number += 1
        self.steps.boundary(self._number)
        return self._number

    def points(self, name: str) -> Mapping[str, Point]:
        (family,) = [family for family in self.steps.families() if family.metric.name == name]
        return {str(point.attributes.get("torch.step.phase", "")): point for point in family.points}

    def counts(self, name: str) -> dict[str, int]:
        points = self.points(name)
        return {phase: point.count for phase, point in points.items() if isinstance(point, HistogramPoint)}

    def value(self, name: str) -> float:
        (point,) = self.points(name).values()
        assert isinstance(point, NumberPoint)
        return point.value

    def exemplars(self) -> list[tuple[float, int, bytes, bytes]]:
        return [
            (exemplar.value, exemplar.unix_ns, exemplar.trace_id, exemplar.span_id)
            for point in self.points(STEP_DURATION).values()
            for exemplar in point.exemplars
        ]


def test_a_step_counts_when_it_was_followed_from_its_beginning() -> None:
    program = Program()
    program.step(60_000)  # with the set-up of the program in it
    assert program.counts(STEP_DURATION) == {}
    program.step(4)
    program.step(8)
    (point,) = program.points(STEP_DURATION).values()
    assert isinstance(point, HistogramPoint)
    assert (point.count, point.min, point.max) == (2, 0.004, 0.008)
    assert abs(point.sum - 0.012) < 1e-12
    assert point.bucket_counts[2:4] == [1, 1]
    assert point.start_unix_ns == UNIX_NS
    assert program.value(STEP_NUMBER) == 3
    assert program.value(STEP_LAST_TIMESTAMP) == (UNIX_NS + 60_012_000_000) / 1e9


def test_a_step_during_a_pause_does_not_count() -> None:
    program = Program()
    program.step()
    program.step()
    program.steps.pause()
    program.step(5_000)
    program.step()
    assert program.counts(STEP_DURATION) == {"train": 2}


def test_the_phase_is_what_backwards_say() -> None:
    program = Program()
    program.step(backward=False)
    program.step(backward=False)
    program.step()
    program.step(backward=False)
    assert program.counts(STEP_DURATION) == {"infer": 1, "train": 1, "eval": 1}


def test_a_wait_has_the_phase_of_what_its_batch_was_used_for() -> None:
    program = Program()
    program.steps.waited(2_000_000)
    program.backwards += 1
    program.step(backward=False)  # the boundary settles it
    program.steps.waited(3_000_000)  # evaluation: two batches, no step
    program.steps.waited(3_000_000)
    program.steps.waited(None)  # the end of the loader settles the last
    assert program.counts(DATALOADER_WAIT) == {"train": 1, "eval": 2}
    program.steps.waited(1_000_000)
    assert program.counts(DATALOADER_WAIT) == {"train": 1, "eval": 2}  # not known yet
    program.backwards += 1
    program.steps.pause()
    assert program.counts(DATALOADER_WAIT) == {"train": 2, "eval": 2}


def test_skipped_steps_count_from_the_start() -> None:
    program = Program()
    assert program.value(STEP_SKIPPED) == 0
    program.skipped += 2
    assert program.value(STEP_SKIPPED) == 2


def test_an_exemplar_names_a_step_whose_spans_arrived() -> None:
    program = Program()
    number = program.step()
    program.steps.expect_spans(number)
    program.step(10)
    assert program.exemplars() == []
    program.steps.spans_delivered(number, TRACE_ID, SPAN_ID)
    ended_ns = UNIX_NS + program.now_ns
    assert program.exemplars() == [(0.01, ended_ns, TRACE_ID.to_bytes(16, "big"), SPAN_ID.to_bytes(8, "big"))]


def test_of_the_exemplars_of_a_bucket_the_latest_stays() -> None:
    program = Program()
    for duration_ms in (10, 12, 100):
        number = program.step()
        program.steps.expect_spans(number)
        program.step(duration_ms)
        program.steps.spans_delivered(number, TRACE_ID, number)
    assert [value for value, *_ in program.exemplars()] == [0.012, 0.1]


def test_steps_that_nobody_asked_for_or_measured_give_none() -> None:
    program = Program()
    program.steps.expect_spans(0)
    number = program.step()  # step 0 was not followed whole
    program.step()
    program.steps.spans_delivered(0, TRACE_ID, SPAN_ID)
    program.steps.spans_delivered(number, TRACE_ID, SPAN_ID)
    assert program.exemplars() == []


def test_what_never_arrives_is_not_kept_for_ever() -> None:
    program = Program()
    for _ in range(1_000):
        program.steps.expect_spans(program.step())
    assert len(program.steps._expected) == 256


def test_many_steps_between_two_collections_all_count() -> None:
    program = Program()
    for _ in range(3_001):
        program.step(1)
    assert program.counts(STEP_DURATION) == {"train": 3_000}


def test_started_over_it_counts_from_zero() -> None:
    program = Program()
    program.step()
    program.step()
    program.now_ns += 7
    program.steps.start_over()
    assert program.counts(STEP_DURATION) == {}
    program.step()
    program.step()
    (point,) = program.points(STEP_DURATION).values()
    assert point.start_unix_ns == UNIX_NS + 8_000_007
