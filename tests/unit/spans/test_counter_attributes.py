"""What was counted stands on the spans it was counted over: steps, user spans, ops."""

from __future__ import annotations

import numpy as np
import pytest

from otel_torchprof.recording import COUNTER_DTYPE, EventKind, RecordingBuilder
from otel_torchprof.spans import SpanData, SpanLimits, plan_spans, roots_from_steps
from tests.support.counted_recordings import counted_recording
from tests.unit.spans.scenes import Run, builder_with_threads

UNBOUNDED = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0)


def counted(span: SpanData) -> dict[str, object]:
    return {name: value for name, value in span.attributes.items() if name.startswith("torch.cpu.")}


def spans_of(*, estimated: bool = False, limits: SpanLimits = UNBOUNDED) -> list[SpanData]:
    recording = counted_recording(estimated=estimated)
    return list(plan_spans(recording, roots_from_steps(recording, Run()), limits).spans())


def test_steps_have_the_sum_of_all_threads_and_spans_their_own() -> None:
    by_name = {(span.name, span.attributes.get("torch.step.number")): counted(span) for span in spans_of()}
    assert by_name == {
        ("torch.step", 4): {"torch.cpu.page_faults": 7, "torch.cpu.task_clock": 950},
        ("torch.step", 5): {"torch.cpu.page_faults": 4, "torch.cpu.task_clock": 990},
        ("forward", None): {"torch.cpu.page_faults": 3, "torch.cpu.task_clock": 700},
        ("aten::mm", None): {"torch.cpu.page_faults": 2},
    }


def test_estimates_are_named() -> None:
    for span in spans_of(estimated=True):
        expected = () if span.name == "aten::mm" else ("torch.cpu.task_clock",)
        assert span.attributes.get("torch.cpu.estimated", ()) == expected


def test_what_is_folded_takes_its_counts_along() -> None:
    (root, *others) = spans_of(limits=SpanLimits(max_spans_per_trace=1))
    assert counted(root)["torch.cpu.page_faults"] == 7
    assert [span.name for span in others] == ["torch.step"]


@pytest.mark.parametrize(
    ("counter", "attribute"),
    [
        ("cache-misses", "torch.cpu.cache_misses"),
        ("L1-dcache-load-misses", "torch.cpu.l1_dcache_load_misses"),
        ("r01C2", "torch.cpu.r01c2"),
        ("cycles:u", "torch.cpu.cycles_u"),
        ("cpu/event=0x3c,umask=0x1/", "torch.cpu.cpu_event_0x3c_umask_0x1"),
        ("../é", "torch.cpu.other"),
    ],
)
def test_any_name_makes_an_attribute(counter: str, attribute: str) -> None:
    builder = builder_with_threads()
    builder.add_step(1_000, 2_000, 1)
    row = builder.add_event("op", 1_100, 1_200, kind=EventKind.USER)
    name = builder.add_name(counter, "count")
    builder.add_counters(np.array([(1_100, row, 0, name, 5)], dtype=COUNTER_DTYPE))
    recording = builder.finish()
    spans = plan_spans(recording, roots_from_steps(recording, Run()), UNBOUNDED).spans()
    (span,) = [span for span in spans if span.name == "op"]
    assert span.attributes[attribute] == 5


def test_levels_and_the_counters_of_others_are_left_out() -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_step(1_000, 2_000, 1)
    row = builder.add_event("op", 1_100, 1_200)
    readings = [
        (1_500, -1, 0, builder.add_name("memory", "bytes"), 10),
        (1_100, row, 0, builder.add_name("sm__cycles_active.max"), 20),
        (1_500, -1, 0, builder.add_name("cycles", "count"), float("inf")),
    ]
    builder.add_counters(np.array(readings, dtype=COUNTER_DTYPE))
    recording = builder.finish()
    for span in plan_spans(recording, roots_from_steps(recording, Run()), UNBOUNDED).spans():
        assert counted(span) == {}
