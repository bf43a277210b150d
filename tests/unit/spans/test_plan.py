"""What becomes of a recording's events: spans, parents, links, folds."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from otel_torchprof.recording import EventFlags, EventKind, Recording, RecordingBuilder
from otel_torchprof.spans import Root, SpanData, SpanLimits, SpanPlan, plan_spans, roots_from_steps
from tests.unit.spans.scenes import NUMBERED, Run, builder_with_threads, recordings

UNBOUNDED = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0, runtime_spans=True)
LANE = "cuda:0 stream 7"


def plan(recording: Recording, limits: SpanLimits = UNBOUNDED) -> SpanPlan:
    return plan_spans(recording, roots_from_steps(recording, Run()), limits)


def by_name(recording: Recording, limits: SpanLimits = UNBOUNDED) -> dict[str, SpanData]:
    return {span.name: span for span in plan(recording, limits).spans()}


def as_int(value: object) -> int:
    assert isinstance(value, int)
    return value


def totals(plan: SpanPlan) -> dict[int, tuple[int, int]]:
    """CPU and device time of each trace: what spans say of themselves and of what they folded."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for span in plan.spans():
        cpu_ns, device_ns = sums[span.trace_id], 0
        cpu_ns[0] += as_int(span.attributes.get("torch.self_time_ns", 0))
        cpu_ns[0] += as_int(span.attributes.get("torch.folded.time_ns", 0))
        if span.attributes.get("torch.event.kind") in {"kernel", "memcpy"}:
            device_ns = span.end_ns - span.start_ns
        cpu_ns[1] += device_ns + as_int(span.attributes.get("torch.folded.device_time_ns", 0))
    return {trace: (cpu, device) for trace, (cpu, device) in sums.items()}


def check_structure(plan: SpanPlan) -> None:
    spans = list(plan.spans())
    ids = {(span.trace_id, span.span_id): span for span in spans}
    assert len(ids) == len(spans)
    for span in spans:
        assert span.span_id
        assert span.start_ns <= span.end_ns
        assert 0 < len(span.name) <= 255
        if span.parent_span_id:
            parent = ids[span.trace_id, span.parent_span_id]
            assert parent.start_ns <= span.start_ns <= span.end_ns <= parent.end_ns
        for link in span.links:
            assert (link.trace_id, link.span_id) in ids


@settings(max_examples=150, deadline=None)
@given(
    recordings(),
    st.sampled_from([0, 1, 2, 5, 20]),
    st.sampled_from([0, 800, 4000]),
    st.booleans(),
    st.sampled_from([0, 100]),
)
def test_kept_and_folded_make_up_the_whole(
    recording: Recording, max_spans: int, max_bytes: int, runtime_spans: bool, min_ns: int
) -> None:
    whole = plan(recording)
    check_structure(whole)
    bounded = plan(recording, SpanLimits(max_spans, max_bytes, min_ns, runtime_spans))
    check_structure(bounded)
    assert totals(bounded) == totals(whole)
    assert sum(stats.folded for stats in whole.stats) == 0
    for before, after in zip(whole.stats, bounded.stats, strict=True):
        assert after.spans + after.folded == before.spans
        assert max_spans == 0 or after.spans <= max_spans
        encoded = sum(
            len(request.payload)
            for request in bounded.encode(b"", scope_name="", scope_version="", schema_url="")
        )
        assert encoded <= sum(stats.max_size_bytes for stats in bounded.stats) + 32 or max_bytes == 0
        assert max_bytes == 0 or after.spans == 1 or after.max_size_bytes <= max_bytes


@settings(max_examples=50, deadline=None)
@given(recordings())
def test_each_event_is_one_span_of_an_unbounded_plan(recording: Recording) -> None:
    spans = Counter(
        (span.start_ns, span.end_ns)
        for span in plan(recording).spans()
        if "torch.event.kind" in span.attributes or "torch.scope" in span.attributes
    )
    events = recording.events
    assert spans == Counter(zip(events.start_ns.tolist(), events.end_ns.tolist(), strict=True))


@settings(max_examples=50, deadline=None)
@given(recordings(), st.sampled_from([3, 10]))
def test_a_plan_follows_from_the_recording_alone(recording: Recording, max_spans: int) -> None:
    limits = SpanLimits(max_spans)
    assert list(plan(recording, limits).spans()) == list(plan(recording, limits).spans())


def test_a_recording_without_steps_is_one_trace() -> None:
    builder = builder_with_threads()
    builder.cover(0, 100)
    builder.add_event("aten::add", 10, 20)
    builder.add_event("aten::mul", 30, 500, track=1)
    spans = by_name(builder.finish())
    capture = spans["torch.capture"]
    assert (capture.start_ns, capture.end_ns, capture.parent_span_id) == (0, 500, 0)
    assert spans["aten::add"].parent_span_id == spans["aten::mul"].parent_span_id == capture.span_id


def test_an_event_longer_than_its_step_stands_beside_it() -> None:
    builder = builder_with_threads()
    builder.add_step(100, 200, 0, flags=NUMBERED)
    builder.add_step(200, 300, 1, flags=NUMBERED)
    builder.add_event("epoch", 110, 290, kind=EventKind.USER)
    builder.add_event("first", 120, 150)
    builder.add_event("second", 220, 250)
    spans = list(plan(builder.finish()).spans())
    first_step, epoch, first, second_step, second = spans
    assert [span.name for span in spans] == ["torch.step", "epoch", "first", "torch.step", "second"]
    assert (epoch.trace_id, epoch.parent_span_id) == (first_step.trace_id, 0)
    assert epoch.attributes["torch.step.crossing"] is True
    assert [(link.span_id, link.attributes) for link in epoch.links] == [
        (first_step.span_id, {"torch.link.type": "crossing"})
    ]
    assert first.parent_span_id == first_step.span_id
    assert (second.trace_id, second.parent_span_id) == (second_step.trace_id, second_step.span_id)


def test_kernels_hang_under_a_lane_and_are_summed_on_their_op() -> None:
    builder = builder_with_threads()
    builder.add_step(0, 1000, 0, flags=NUMBERED)
    builder.add_event("aten::mm", 100, 300)
    builder.add_event("cudaLaunchKernel", 150, 160, kind=EventKind.RUNTIME, correlation=5)
    builder.add_event("void gemm<float>(float*)", 400, 480, track=2, kind=EventKind.KERNEL, correlation=5)
    spans = by_name(builder.finish(), SpanLimits())
    assert "cudaLaunchKernel" not in spans
    op, kernel = spans["aten::mm"], spans["gemm"]
    assert spans[LANE].parent_span_id == spans["torch.step"].span_id
    assert kernel.parent_span_id == spans[LANE].span_id
    assert [(link.span_id, link.attributes["torch.link.type"]) for link in kernel.links] == [
        (op.span_id, "launch")
    ]
    assert kernel.attributes == {
        "torch.original_name": "void gemm<float>(float*)",
        "torch.event.kind": "kernel",
        "cuda.device.index": 0,
        "cuda.stream.id": 7,
        "torch.correlation_id": 5,
        "torch.link.type": "launch",
        "torch.launch.delay_ns": 240,
        "torch.launch.queue_depth": 0,
    }
    assert op.attributes == {
        "thread.id": 100,
        "thread.name": "main",
        "torch.scope": "function",
        "torch.self_time_ns": 190,
        "torch.link.type": "launch",
        "torch.correlation_id": 5,
        "torch.device.time_ns": 80,
        "torch.kernel.count": 1,
        "torch.kernel.names": ("gemm (1)",),
        "torch.folded.count": 1,
        "torch.folded.time_ns": 10,
        "torch.folded.names": ("cudaLaunchKernel (1)",),
    }


@pytest.mark.parametrize(
    ("flags", "attributes"),
    [
        (EventFlags.ASYNC, {"torch.async": True}),
        (EventFlags.UNFINISHED, {"torch.unfinished": True}),
        (EventFlags.OTHER_THREAD, {"torch.end_thread.id": 200}),
    ],
)
def test_flags_become_attributes(flags: EventFlags, attributes: dict[str, object]) -> None:
    builder = builder_with_threads()
    builder.add_event("op", 0, 10, flags=flags, end_track=1, overload="out")
    span = by_name(builder.finish())["op"]
    assert attributes.items() <= span.attributes.items()
    assert span.attributes["torch.op.overload"] == "out"


def test_what_an_exception_ended_is_an_error() -> None:
    builder = builder_with_threads()
    builder.add_event("load", 0, 10, kind=EventKind.USER, scope=7, error="shop.data.NoSuchFile")
    builder.add_event("op", 20, 30)
    builder.add_event("odd", 40, 50, error="\x00" + "x" * 300)
    spans = by_name(builder.finish())
    found = {name: (span.error, span.attributes.get("error.type")) for name, span in spans.items()}
    odd = "\\x00" + "x" * 251
    assert (
        found.items()
        >= {
            "load": ("shop.data.NoSuchFile", "shop.data.NoSuchFile"),
            "op": (None, None),
            "odd": (odd, odd),
        }.items()
    )


def inputs_of(encoded: bytes) -> dict[str, object]:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("op", 0, 10, inputs=encoded)
    attributes = by_name(builder.finish())["op"].attributes
    return {name: value for name, value in attributes.items() if name.startswith("torch.input.")}


def test_inputs_become_json() -> None:
    tensor = bytes([1, 6, 0, 2, 4, 6, 1, 6, 2])  # float32 on the CPU, 2 x 3, strides 3, 1
    number, text = bytes([3, 3]), bytes([6, 3]) + b'a"\n'
    numbers, tensors = bytes([8, 2, 3, 2, 3, 4]), bytes([9, 2]) + tensor + bytes([2])
    encoded = bytes([6]) + tensor + bytes([0]) + number + text + numbers + tensors
    assert inputs_of(encoded) == {
        "torch.input.shapes": "[[2,3],null,null,null,[null,null],[[2,3],null]]",
        "torch.input.types": '["float32","None","int","str",["int","int"],["float32","undefined"]]',
        "torch.input.strides": "[[3,1],null,null,null,[null,null],[[3,1],null]]",
        "torch.input.values": '[null,null,-2,"a\\"\\\\x0a",[1,2],[null,null]]',
    }


def test_long_and_damaged_inputs_are_cut_and_say_so() -> None:
    many = inputs_of(bytes([0xE8, 0x07]) + bytes([3, 2]) * 1000)
    assert len(str(many["torch.input.types"]).encode()) == 2047
    assert many["torch.input.cut"] is True
    damaged = inputs_of(bytes([2, 3, 2]))
    assert (damaged["torch.input.values"], damaged["torch.input.cut"]) == ("[1]", True)


def test_no_root_is_an_error_with_a_reason() -> None:
    recording = Recording.empty()
    with pytest.raises(ValueError, match="at least one root"):
        plan_spans(recording, [])
    with pytest.raises(ValueError, match="must not be zero"):
        plan_spans(recording, [Root(trace_id=1, span_id=0, start_ns=0, end_ns=1)])
    with pytest.raises(ValueError, match="ends before it starts"):
        plan_spans(recording, [Root(trace_id=1, span_id=1, start_ns=2, end_ns=1)])
    with pytest.raises(ValueError, match="does not have"):
        plan_spans(recording, [Root(trace_id=1, span_id=1, start_ns=0, end_ns=1, step=0)])
