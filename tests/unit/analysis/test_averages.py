"""The averages table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from otel_torchprof.analysis.averages import AveragesRow, averages
from otel_torchprof.errors import UnknownStepError
from otel_torchprof.recording import MEMORY_DTYPE, EventKind, Recording, RecordingBuilder
from tests.support.recordings import recordings


@pytest.fixture
def training() -> Recording:
    builder = RecordingBuilder()
    builder.add_track("main")
    for step in range(2):
        start_ns = step * 1000
        builder.add_step(start_ns, start_ns + 1000, step)
        builder.add_event("linear", start_ns, start_ns + 400)
        builder.add_event("add", start_ns + 100, start_ns + 200, overload="Tensor")
        builder.add_event("add", start_ns + 500, start_ns + 600, overload="Scalar")
        builder.add_event("add", start_ns + 700, start_ns + 900, kind=EventKind.USER)
    return builder.finish()


def test_rows_are_ordered_by_self_time(training: Recording) -> None:
    table = averages(training)
    assert [(row.name, row.kind, row.calls, row.total_ns, row.self_ns) for row in table.rows] == [
        ("linear", EventKind.OP, 2, 800, 600),
        ("add", EventKind.OP, 4, 400, 400),
        ("add", EventKind.USER, 2, 400, 400),
    ]
    assert table.rows[0] == AveragesRow("linear", "", EventKind.OP, None, 2, 800, 600, 400.0, 600 / 1400)
    assert table.calls.tolist() == [2, 4, 2]
    assert table.total_ns.tolist() == [800, 400, 400]
    assert table.self_ns.tolist() == [600, 400, 400]


def test_overloads_are_kept_apart_when_asked(training: Recording) -> None:
    rows = averages(training, group_by_overload=True).rows
    assert {(row.name, row.overload, row.calls) for row in rows if row.kind is EventKind.OP} == {
        ("linear", "", 2),
        ("add", "Tensor", 2),
        ("add", "Scalar", 2),
    }


def test_steps_select_what_starts_in_them(training: Recording) -> None:
    assert [row.calls for row in averages(training, steps=[1]).rows] == [1, 2, 1]
    assert averages(training, steps=[]).rows == []
    both, whole = averages(training, steps=[0, 1]), averages(training)
    assert [replace(row, self_share=row.self_ns / 1400) for row in both.rows] == whole.rows
    assert [row.self_share for row in both.rows] == [0.3, 0.2, 0.2]  # of what the steps lasted
    assert (both.steps_ns, whole.steps_ns) == (2000, None)
    with pytest.raises(ValueError, match=r"the recording has no step 7: its steps are 0, 1$"):
        averages(training, steps=[0, 7])


@pytest.mark.parametrize("with_memory", [False, True])
@pytest.mark.parametrize("by_shapes", [False, True])
def test_marks_of_steps_are_one_name(by_shapes: bool, with_memory: bool) -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("before", 0, 5)
    for step in range(5, 8):
        start_ns = step * 100
        builder.add_event(f"ProfilerStep#{step}", start_ns, start_ns + 90, kind=EventKind.USER)
        builder.add_event("add", start_ns + 10, start_ns + 40)
    if with_memory:
        rows = np.zeros(3, dtype=MEMORY_DTYPE)
        rows["time_ns"] = [520, 620, 720]
        rows["event"] = -1
        rows["address"] = [0x10, 0x20, 0x30]
        rows["size_bytes"] = 64
        rows["device"] = -1
        builder.add_memory(rows)
    builder.add_event("ProfilerStep#9", 900, 910)  # not of the same kind
    builder.add_event("ProfilerSteps", 920, 921)
    table = averages(builder.finish(), by_shapes)
    assert [(row.name, row.kind, row.calls, row.total_ns, row.self_ns) for row in table.rows] == [
        ("ProfilerStep", EventKind.USER, 3, 270, 180),
        ("add", EventKind.OP, 3, 90, 90),
        ("ProfilerStep", EventKind.OP, 1, 10, 10),
        ("before", EventKind.OP, 1, 5, 5),
        ("ProfilerSteps", EventKind.OP, 1, 1, 1),
    ]
    assert table.calls.tolist() == [3, 3, 1, 1, 1]
    if with_memory:
        assert [row.host_bytes for row in table.rows] == [192, 192, 0, 0, 0]
        assert [row.self_host_bytes for row in table.rows] == [0, 192, 0, 0, 0]


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ([], "it has no steps"),
        ([4], "its only step is 4"),
        ([4, 5, 6, 9, 11, 12], "its steps are 4 to 6, 9, 11, 12"),
        (range(0, 40, 2), "its steps are 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, ..."),
    ],
)
def test_a_missing_step_is_told_with_those_that_are_there(numbers: Iterable[int], named: str) -> None:
    builder = RecordingBuilder()
    builder.add_track()
    for number in numbers:
        builder.add_step(number * 10, number * 10 + 5, number)
    with pytest.raises(UnknownStepError) as told:
        averages(builder.finish(), steps=[77])
    assert str(told.value) == f"the recording has no step 77: {named}"


def test_rows_by_shape_say_the_shapes() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("cat", 0, 5, inputs=b"\x02\x09\x02\x01\x06\x00\x01\x08\x00\x01\x06\x00\x00\x00\x03\x02")
    builder.add_event("cat", 5, 7, inputs=b"\x02\x09\x01\x01\x06\x00\x01\x08\x00\x03\x02")
    builder.add_event("cat", 7, 8)
    rows = averages(builder.finish(), group_by_shapes=True).rows
    assert [(row.shapes, row.self_ns) for row in rows] == [
        ((((4,), ()), ()), 5),
        ((((4,),), ()), 2),
        ((), 1),
    ]


def test_recursion_is_not_counted_twice_in_the_total() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    for depth in range(65_000):
        builder.add_event("f", depth, 200_000 - depth)
    (row,) = averages(builder.finish()).rows
    assert (row.calls, row.total_ns, row.self_ns) == (65_000, 200_000, 200_000)


def test_the_span_of_a_profilers_run_is_nobodys_time() -> None:
    builder = RecordingBuilder()
    builder.add_track("Spans")
    builder.add_event("PyTorch Profiler (0)", 0, 1_000, kind=EventKind.SPAN)
    alone = averages(builder.finish()).rows
    assert [(row.name, row.self_share) for row in alone] == [("PyTorch Profiler (0)", 1.0)]
    builder = RecordingBuilder()
    builder.add_track("Spans")
    builder.add_event("PyTorch Profiler (0)", 0, 1_000, kind=EventKind.SPAN)
    builder.add_track("main")
    builder.add_event("aten::add", 100, 200)
    assert [(row.name, row.self_share) for row in averages(builder.finish()).rows] == [("aten::add", 1.0)]


@given(recordings())
def test_nothing_is_lost_in_the_table(recording: Recording) -> None:
    for by_shapes in (False, True):
        table = averages(recording, by_shapes)
        spans = int((recording.events.kind == EventKind.SPAN).sum())
        is_left_out = 0 < spans < len(recording)  # beside other events
        assert sum(row.calls for row in table.rows) == len(recording) - (spans if is_left_out else 0)
        for row in table.rows:
            assert row.self_ns >= 0
            assert 0 <= row.self_share <= 1
