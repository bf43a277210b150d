"""Steps as the top spans of traces: ids, parents, links, sampling."""

from __future__ import annotations

from otel_torchprof.recording import StepFlags
from otel_torchprof.recording.steps import SpanContext
from otel_torchprof.spans import RootLink, plan_spans, roots_from_steps, step_ids
from tests.unit.spans.scenes import NUMBERED, Run, builder_with_threads

REQUEST = SpanContext((0xAA).to_bytes(16, "big"), (0xBB).to_bytes(8, "big"))


def test_ids_follow_from_run_restart_rank_and_number() -> None:
    ids = [
        step_ids(Run(run_id, restart, rank), number)
        for run_id in ("a", "b")
        for restart in (0, 1)
        for rank in (0, 1)
        for number in (0, 1)
    ]
    assert len({trace for trace, _ in ids}) == len({span for _, span in ids}) == len(ids)
    assert step_ids(Run("a", 0, None), 1) == step_ids(Run("a", 0, 0), 1)
    # Ids must not change between releases: ranks and restarts may run different ones.
    assert step_ids(Run("run", 1, 2), 3) == (0xD0ED1E1A555CBD05191166B0BAD1C02E, 0x61C02082FD3DC0E5)


def test_a_step_on_its_own_is_a_root_linked_to_what_was_current() -> None:
    builder = builder_with_threads()
    builder.add_step(0, 10, 4, flags=NUMBERED, context=REQUEST, context_trace_flags=1)
    builder.add_step(10, 20, 5, flags=NUMBERED, links=[REQUEST, SpanContext(bytes(16), bytes(8))])
    before = RootLink(1, 2, "previous_step")
    first, second = roots_from_steps(builder.finish(), Run(), previous=before)
    assert (first.trace_id, first.span_id) == step_ids(Run(), 4)
    assert (first.parent_span_id, first.number, first.step) == (0, 4, 0)
    assert first.links == (before, RootLink(0xAA, 0xBB, "context"))
    assert second.links == (
        RootLink(first.trace_id, first.span_id, "previous_step"),
        RootLink(0xAA, 0xBB, "request"),
    )


def test_a_step_within_a_span_joins_its_trace_and_its_sampling() -> None:
    builder = builder_with_threads()
    in_parent = NUMBERED | StepFlags.IN_PARENT
    builder.add_step(0, 10, 0, flags=in_parent, context=REQUEST, context_trace_flags=1)
    builder.add_step(10, 20, 1, flags=in_parent, context=REQUEST, context_trace_flags=0)
    sampled, unsampled = roots_from_steps(builder.finish(), Run())
    assert (sampled.trace_id, sampled.parent_span_id) == (0xAA, 0xBB)
    assert sampled.span_id == step_ids(Run(), 0)[1]
    assert sampled.is_sampled
    assert not unsampled.is_sampled


def test_a_step_that_is_not_sampled_takes_its_events_along() -> None:
    builder = builder_with_threads()
    for number in range(3):
        builder.add_step(10 * number, 10 * number + 10, number, flags=NUMBERED)
        builder.add_event(f"op{number}", 10 * number, 10 * number + 5)
    recording = builder.finish()
    roots = roots_from_steps(recording, Run(), sampled=[True, False, True])
    assert roots[2].links == (RootLink(roots[0].trace_id, roots[0].span_id, "previous_step"),)
    assert [span.name for span in plan_spans(recording, roots).spans()] == [
        "torch.step",
        "op0",
        "torch.step",
        "op2",
    ]


def test_steps_without_numbers_have_ids_of_their_own() -> None:
    builder = builder_with_threads()
    builder.add_step(100, 200)
    builder.add_step(200, 300)
    recording = builder.finish()
    roots = roots_from_steps(recording, Run())
    assert len({root.span_id for root in roots}) == 2
    assert all("torch.step.number" not in span.attributes for span in plan_spans(recording, roots).spans())


def test_step_attributes() -> None:
    builder = builder_with_threads()
    builder.add_step(0, 100, 7, flags=NUMBERED | StepFlags.PARTIAL)
    recording = builder.finish()
    (span,) = plan_spans(recording, roots_from_steps(recording, Run())).spans()
    assert span.attributes == {
        "torch.step.number": 7,
        "thread.id": 100,
        "thread.name": "main",
        "torch.step.partial": True,
    }
