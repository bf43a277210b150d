"""Which span a captured step belongs to: the rule of one minute and one step, and the sampler."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, TraceFlags, TraceState
from opentelemetry.util.types import Attributes

from otel_torchprof.telemetry.context import CurrentSpan, StepPlacer, current_span

SECOND_NS = 1_000_000_000
UNIX_NS = 1_700_000_000 * SECOND_NS
ROOT_TRACE_ID = 0xABC


class Clock:
    """Both clocks; `advance` moves both, `set_unix` only the one that people set."""

    def __init__(self) -> None:
        self.monotonic_ns = 5 * SECOND_NS
        self.unix_ns = UNIX_NS

    def advance(self, seconds: float) -> None:
        self.monotonic_ns += int(seconds * SECOND_NS)
        self.unix_ns += int(seconds * SECOND_NS)


def make_placer(
    clock: Clock | None = None, sampler: Sampler = ALWAYS_ON, max_remembered_spans: int = 1024
) -> StepPlacer:
    clock = clock or Clock()
    provider = TracerProvider(sampler=sampler)
    return StepPlacer(
        lambda: provider,
        monotonic_ns=lambda: clock.monotonic_ns,
        unix_ns=lambda: clock.unix_ns,
        max_remembered_spans=max_remembered_spans,
    )


def make_span(span_id: int = 1, *, age_s: float | None = 0.0, flags: int = TraceFlags.SAMPLED) -> CurrentSpan:
    start_ns = None if age_s is None else UNIX_NS - int(age_s * SECOND_NS)
    return CurrentSpan(7, span_id, flags, start_ns, is_recording=True, is_remote=False)


def test_the_current_span_is_read_as_plain_integers() -> None:
    tracer = TracerProvider().get_tracer("test")
    assert current_span() is None
    with tracer.start_as_current_span("job", start_time=123) as span:
        context = span.get_span_context()
        assert current_span() == CurrentSpan(
            context.trace_id, context.span_id, int(context.trace_flags), 123, True, False
        )
    assert current_span() is None


def test_a_remote_parent_has_no_start() -> None:
    remote = NonRecordingSpan(SpanContext(2**100, 2**60, True, TraceFlags(0)))
    with trace.use_span(remote):
        span = current_span()
    assert span == CurrentSpan(2**100, 2**60, 0, None, False, True)
    assert span is not None
    assert span.context_bytes == (2**100).to_bytes(16, "big") + (2**60).to_bytes(8, "big")
    assert not span.is_sampled


def test_a_step_is_a_child_of_a_young_span_that_holds_none() -> None:
    placer = make_placer()
    span = make_span(age_s=59.9)
    placement = placer.place(span, ROOT_TRACE_ID)
    assert (placement.parent, placement.linked, placement.is_sampled) == (span, None, True)


def test_the_second_step_under_a_span_is_a_root_linked_to_it() -> None:
    placer = make_placer()
    span = make_span()
    placer.place(span, ROOT_TRACE_ID)
    placement = placer.place(span, ROOT_TRACE_ID)
    assert (placement.parent, placement.linked, placement.is_sampled) == (None, span, True)
    assert placer.place(make_span(2), ROOT_TRACE_ID).parent == make_span(2)


def test_a_step_under_an_old_span_is_a_root_linked_to_it() -> None:
    span = make_span(age_s=60.0)
    placement = make_placer().place(span, ROOT_TRACE_ID)
    assert (placement.parent, placement.linked) == (None, span)


def test_without_a_span_a_step_is_a_root() -> None:
    placement = make_placer().place(None, ROOT_TRACE_ID)
    assert (placement.parent, placement.linked, placement.is_sampled) == (None, None, True)


def test_a_start_in_the_future_counts_as_now() -> None:
    span = make_span(age_s=-5.0)
    assert make_placer().place(span, ROOT_TRACE_ID).parent == span


def test_an_unknown_start_counts_from_the_first_sight() -> None:
    clock = Clock()
    remote = make_span(age_s=None)
    assert make_placer(clock).place(remote, ROOT_TRACE_ID).parent == remote


def test_a_clock_that_is_set_back_makes_no_span_young() -> None:
    clock = Clock()
    placer = make_placer(clock)
    old = make_span(age_s=61.0)
    assert placer.place(old, ROOT_TRACE_ID).parent is None
    clock.unix_ns -= 3600 * SECOND_NS
    assert placer.place(old, ROOT_TRACE_ID).parent is None


def test_memory_of_spans_is_bounded_and_keeps_the_recent_ones() -> None:
    placer = make_placer(max_remembered_spans=3)
    for span_id in range(1, 11):
        placer.place(make_span(span_id), ROOT_TRACE_ID)
    assert len(placer._seen) == 3
    assert placer.place(make_span(10), ROOT_TRACE_ID).parent is None


@pytest.mark.parametrize("flags", [0, 1])
def test_a_child_follows_its_parents_flag(flags: int) -> None:
    placement = make_placer(sampler=ALWAYS_OFF).place(make_span(flags=flags), ROOT_TRACE_ID)
    assert placement.parent is not None
    assert placement.is_sampled == bool(flags)


@pytest.mark.parametrize(("sampler", "sampled"), [(ALWAYS_ON, True), (ALWAYS_OFF, False)])
def test_the_providers_sampler_decides_for_roots(sampler: Sampler, sampled: bool) -> None:
    assert make_placer(sampler=sampler).place(None, ROOT_TRACE_ID).is_sampled is sampled


class RecordingSampler(Sampler):
    def __init__(self, answer: Callable[[], SamplingResult]) -> None:
        self.asked: list[tuple[object, int, str, SpanKind | None, list[int]]] = []
        self._answer = answer

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        self.asked.append(
            (parent_context, trace_id, name, kind, [link.context.span_id for link in links or ()])
        )
        return self._answer()

    def get_description(self) -> str:
        return "test"


def test_what_the_sampler_is_asked() -> None:
    sampler = RecordingSampler(lambda: SamplingResult(Decision.RECORD_ONLY))
    placement = make_placer(sampler=sampler).place(make_span(age_s=100.0), ROOT_TRACE_ID)
    assert not placement.is_sampled, "recorded only is not sent"
    assert sampler.asked == [(Context(), ROOT_TRACE_ID, "torch.step", SpanKind.INTERNAL, [1])]


def test_a_sampler_that_raises_decides_nothing() -> None:
    def fail() -> SamplingResult:
        raise RuntimeError("no")

    assert make_placer(sampler=RecordingSampler(fail)).place(None, ROOT_TRACE_ID).is_sampled


def test_a_provider_without_a_sampler_samples_all() -> None:
    placer = StepPlacer(SimpleNamespace)  # type: ignore[arg-type]
    assert placer.place(None, ROOT_TRACE_ID).is_sampled


def test_a_fork_while_the_lock_is_held_does_not_block_the_child() -> None:
    placer = make_placer()
    with placer._lock:
        pid = os.fork()
        if pid == 0:
            placed = placer.place(make_span(), ROOT_TRACE_ID).parent is not None
            os._exit(0 if placed else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_span_around_a_loop_of_a_day_holds_one_step() -> None:
    clock = Clock()
    placer = make_placer(clock, max_remembered_spans=4)
    job = make_span()
    children = 0
    for minute in range(24 * 60):
        placement = placer.place(job, ROOT_TRACE_ID)
        children += placement.parent is not None
        assert (placement.parent or placement.linked) == job
        for other in range(8):  # which push it out of what is remembered
            placer.place(make_span(100 + minute * 8 + other), ROOT_TRACE_ID)
        clock.advance(60)
    assert children == 1
