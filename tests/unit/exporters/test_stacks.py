"""Folded stacks: added up, in microseconds, one line each."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given

from otel_torchprof.exporters import export
from otel_torchprof.exporters.stacks import MAX_DEPTH, FoldedStacks
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, TrackKind
from tests.support.recordings import recordings


def lines_of(recording: Recording) -> list[str]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "out.folded"
        export(recording, path)
        return path.read_text("utf-8").splitlines()


def test_equal_stacks_are_added_up() -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    for start_ns in (0, 100_000):
        builder.add_event("outer", start_ns, start_ns + 50_000)
        builder.add_event("inner", start_ns + 10_000, start_ns + 30_400)
    assert lines_of(builder.finish()) == ["outer 59", "outer;inner 41"]


def test_overloads_are_one_frame() -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("aten::add", 0, 5_000, overload="Tensor")
    builder.add_event("aten::add", 5_000, 8_000, overload="Scalar")
    assert lines_of(builder.finish()) == ["aten::add 8"]


def test_work_on_devices_is_no_stack() -> None:
    builder = RecordingBuilder()
    builder.add_track("stream 7", TrackKind.STREAM, device=0)
    builder.add_event("gemm", 0, 50_000, kind=EventKind.KERNEL)
    assert lines_of(builder.finish()) == []


def test_the_span_of_a_profilers_run_is_no_stack() -> None:
    builder = RecordingBuilder()
    builder.add_track("Spans", TrackKind.OTHER)
    builder.add_event("PyTorch Profiler (0)", 0, 50_000, kind=EventKind.SPAN)
    builder.add_track("main")
    builder.add_event("aten::add", 0, 8_000)
    assert lines_of(builder.finish()) == ["aten::add 8"]


def test_names_break_no_line() -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("a;b\nc é", 0, 5_000)
    assert lines_of(builder.finish()) == ["a:b\\nc é 5"]


def test_a_stack_without_end_is_cut_and_loses_no_time(tmp_path: Path) -> None:
    depth = 100_000
    builder = RecordingBuilder()
    builder.add_track("main")
    times_ns = np.arange(depth) * 1_000
    builder.add_events(
        np.full(depth, builder.add_name("f")), times_ns, 2_000 * depth - times_ns, np.zeros(depth)
    )
    counts = export(builder.finish(), tmp_path / "out.folded")
    lines = (tmp_path / "out.folded").read_text("utf-8").splitlines()
    assert counts["cut_events"] == depth - MAX_DEPTH
    assert counts["stacks"] == len(lines) == MAX_DEPTH + 1
    assert lines[-1].startswith("f;f;f;")
    assert lines[-1].endswith(f";(deeper) {2 * (depth - MAX_DEPTH)}")
    assert all(line.endswith("f 2") for line in lines[:-1])
    assert counts["size_bytes"] < MAX_DEPTH * MAX_DEPTH * 3


@given(recordings())
def test_every_line_is_read_by_flame_graphs_and_none_is_twice(recording: Recording) -> None:
    lines = lines_of(recording)
    assert all(re.fullmatch(r"(.+) (\d+)", line) for line in lines)
    stacks = Counter(stack for stack, _self_us in FoldedStacks(recording))
    # Names that differ in what a frame cannot show may look alike.
    assert len(lines) == sum(stacks.values())


@given(recordings())
def test_self_time_is_that_of_the_threads(recording: Recording) -> None:
    on_threads = [
        row
        for row, track in enumerate(recording.events.track.tolist())
        if recording.tracks[track].kind != TrackKind.STREAM
    ]
    kinds = set(recording.events.kind.tolist())
    expected_ns = sum(
        int(recording.tree().self_ns[row])
        for row in on_threads
        if kinds == {EventKind.SPAN} or recording.events.kind[row] != EventKind.SPAN
    )
    stacks = list(FoldedStacks(recording))
    # Half a microsecond for each stack, those that round to nothing included.
    assert abs(sum(self_us for _stack, self_us in stacks) * 1000 - expected_ns) <= 500 * len(recording)
