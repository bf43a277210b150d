"""The tree of modules: exact sums of small recordings, and what holds for any."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.modules import ModuleRow, module_tree
from otel_torchprof.recording import (
    MEMORY_DTYPE,
    EventFlags,
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    TrackKind,
)
from tests.support.recordings import recordings

FORWARD_THREAD = 1


def module(
    builder: RecordingBuilder, name: str, path: str, start_ns: int, end_ns: int, training: bool = True
) -> int:
    flags = EventFlags.TRAINING if training else EventFlags.EVALUATION
    return builder.add_event(
        name, start_ns, end_ns, overload=path, track=0, kind=EventKind.MODULE, flags=flags
    )


def training_recording() -> Recording:
    """A net of two layers: forward on one thread, backward on another, one kernel, some memory."""
    builder = RecordingBuilder()
    builder.add_track("main", TrackKind.THREAD, torch_thread_id=FORWARD_THREAD)
    builder.add_track("autograd", TrackKind.THREAD, torch_thread_id=2)
    builder.add_track("stream 7", TrackKind.STREAM, device=0, thread_id=7)
    module(builder, "Net", "", 0, 100)
    module(builder, "Linear", "layers.0", 10, 40)
    addmm = builder.add_event("aten::addmm", 12, 38, track=0, sequence=5)
    call = builder.add_event("cudaLaunchKernel", 20, 22, track=0, kind=EventKind.RUNTIME, correlation=9)
    module(builder, "Linear", "layers.1", 40, 60, training=False)
    builder.add_event("aten::addmm", 41, 59, track=0, sequence=6)
    builder.add_event("aten::sum", 70, 80, track=0, sequence=7)
    module(builder, "Linear", "layers.1", 80, 90)
    for start_ns, sequence in ((200, 7), (220, 6), (240, 5)):
        builder.add_event(
            "engine", start_ns, start_ns + 15, track=1, sequence=sequence, forward_thread=FORWARD_THREAD
        )
        builder.add_event(
            "Backward0", start_ns + 2, start_ns + 9, track=1, sequence=sequence, forward_thread=FORWARD_THREAD
        )
    kernel = builder.add_event("gemm", 50, 80, track=2, kind=EventKind.KERNEL, correlation=9)
    builder.add_link(call, kernel, LinkType.LAUNCH)
    memory = np.zeros(3, dtype=MEMORY_DTYPE)
    memory["time_ns"] = (13, 14, 300)
    memory["event"] = (addmm, addmm, -1)
    memory["size_bytes"] = (64, -16, -48)
    memory["total_allocated_bytes"] = memory["total_reserved_bytes"] = -1
    builder.add_memory(memory)
    known: dict[str, object] = {"root": "Net", "path": "layers.0", "class": "Linear"}
    known |= {"parameter_count": 20, "parameter_bytes": 80}
    builder.add_metadata({"modules.0": [known, "odd", {"path": 3}], "modules.x": 7})
    return builder.finish()


def test_each_module_has_its_times_with_those_of_what_it_calls() -> None:
    tree = module_tree(training_recording())
    memory = (64, 16)
    assert tree.rows == [
        ModuleRow("Net", "", -1, 0, 1, 1, 100, 40, 45, 15, 30, 0, *memory, None, None),
        ModuleRow("Linear", "layers.0", 0, 1, 1, 1, 30, 30, 15, 15, 30, 30, *memory, 20, 80),
        ModuleRow("Linear", "layers.1", 0, 1, 2, 1, 30, 30, 15, 15, 0, 0, 0, 0, None, None),
    ]


def test_every_event_knows_its_module() -> None:
    recording = training_recording()
    tree = module_tree(recording)
    places = [
        (recording.event_name(row), tree.rows[index].path if index >= 0 else None)
        for row, index in enumerate(tree.module_of_row.tolist())
    ]
    assert [path for name, path in places if name == "aten::addmm"] == ["layers.0", "layers.1"]
    assert [path for name, path in places if name == "Backward0"] == ["", "layers.1", "layers.0"]
    assert ("gemm", None) in places  # it lies on a stream


def test_modules_of_other_profilers_have_their_names_without_the_prefix() -> None:
    builder = RecordingBuilder()
    builder.add_track("main", TrackKind.THREAD)
    builder.add_event("nn.Module: Linear_0", 0, 10, track=0, kind=EventKind.MODULE)
    (row,) = module_tree(builder.finish()).rows
    assert (row.class_name, row.path, row.calls, row.training_calls) == ("Linear_0", "", 1, 0)


@given(recordings())
def test_what_holds_for_any_recording(recording: Recording) -> None:
    tree = module_tree(recording)
    events = recording.events
    modules = np.flatnonzero(events.kind == EventKind.MODULE)
    assert sum(row.calls for row in tree.rows) == len(modules)
    assert len(tree.module_of_row) == len(recording)
    assert all((index >= 0) for index in tree.module_of_row[modules].tolist())
    for index, row in enumerate(tree.rows):
        children = [other for other in tree.rows if other.parent == index]
        assert -1 <= row.parent < index
        assert row.depth == (0 if row.parent < 0 else tree.rows[row.parent].depth + 1)
        assert row.backward_ns == row.self_backward_ns + sum(child.backward_ns for child in children)
        assert row.device_ns == row.self_device_ns + sum(child.device_ns for child in children)
        assert 0 <= row.self_forward_ns <= row.forward_ns


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), max_size=20))
def test_nested_calls_of_one_module_are_counted_where_they_are(calls: list[tuple[int, int]]) -> None:
    builder = RecordingBuilder()
    builder.add_track("main", TrackKind.THREAD)
    for number, (depth, width) in enumerate(calls):
        for level in range(depth + 1):
            start_ns = number * 100 + level
            module(builder, "Self", "", start_ns, start_ns + 50 + width - 2 * level)
    rows = module_tree(builder.finish()).rows
    assert [row.depth for row in rows] == list(range(len(rows)))
    assert [row.calls for row in rows] == [
        sum(depth >= level for depth, _width in calls) for level in range(len(rows))
    ]
