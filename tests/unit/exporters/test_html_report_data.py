"""What the HTML report says: exact figures of small recordings, and totals that nothing is lost from."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.exporters.html_report.flame import MAX_FRAMES
from otel_torchprof.exporters.html_report.names import MAX_NAME_CHARACTERS, shown
from otel_torchprof.exporters.html_report.report_data import report_data
from otel_torchprof.exporters.html_report.steps import MAX_BARS
from otel_torchprof.exporters.html_report.tables import MAX_TABLE_ROWS
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, StepFlags, TrackKind
from tests.support.recordings import recordings, small_times
from tests.support.report_recordings import hostile_recording, training_recording


def data_of(recording: Recording, **problems: int) -> dict[str, Any]:
    return report_data(recording, title="a recording", problems=problems)


def table_rows(data: dict[str, Any], table: str) -> dict[str, dict[str, int]]:
    columns = {name: column for name, column in data[table].items() if name not in {"name", "other"}}
    return {
        data["names"][name]: {key: column[row] for key, column in columns.items()}
        for row, name in enumerate(data[table]["name"])
    }


def flame_stacks(data: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Calls, self and whole time in us by path."""
    flame = data["flame"]
    paths: list[str] = []
    result: dict[str, tuple[int, int, int]] = {}
    for row, (parent, name) in enumerate(zip(flame["parent"], flame["name"], strict=True)):
        text = data["names"][name] if name >= 0 else "..."
        paths.append(text if parent < 0 else f"{paths[parent]};{text}")
        result[paths[-1]] = (
            flame["calls"][row],
            flame["self_ns"][row] // 1000,
            flame["time_ns"][row] // 1000,
        )
    return result


def test_operators_have_calls_times_and_the_device_work_they_launched() -> None:
    rows = table_rows(data_of(training_recording()), "ops")
    assert list(rows) == ["forward", "aten::mm", "ProfilerStep", "cudaLaunchKernel", "cudaMemcpyAsync"]
    assert rows["aten::mm"] == {
        "kind": EventKind.OP,
        "calls": 6,
        "total_ns": 150_000,
        "self_ns": 120_000,
        "device_ns": 150_000,
    }
    assert rows["cudaLaunchKernel"]["device_ns"] == 0  # it launched for the operator around it


def test_equal_stacks_are_one_frame() -> None:
    assert flame_stacks(data_of(training_recording())) == {
        "ProfilerStep": (3, 60, 400),
        "ProfilerStep;forward": (3, 190, 340),
        "ProfilerStep;forward;aten::mm": (6, 120, 150),
        "ProfilerStep;forward;aten::mm;cudaLaunchKernel": (3, 15, 15),
        "ProfilerStep;forward;aten::mm;cudaMemcpyAsync": (3, 15, 15),
    }


def test_device_work_belongs_to_all_frames_around_its_launch() -> None:
    flame = data_of(training_recording())["flame"]
    assert flame["device_ns"] == [150_000, 150_000, 150_000, 0, 0]


def test_a_device_is_busy_where_kernels_and_copies_overlap_only_once() -> None:
    (device,) = data_of(training_recording())["devices"]
    assert {name: device[name] for name in ("kernel_ns", "copy_ns", "busy_ns", "span_ns", "idle_ns")} == {
        "kernel_ns": 90_000,
        "copy_ns": 60_000,
        "busy_ns": 120_000,
        "span_ns": 640_000,
        "idle_ns": 520_000,
    }
    assert (device["model"], device["kernels"], device["copies"], device["gaps"]) == ("NVIDIA H100", 3, 3, 2)
    assert device["longest_gaps"] == [[70_000, 260_000], [370_000, 260_000]]


def test_kernels_and_copies_by_name() -> None:
    data = data_of(training_recording())
    kernel = table_rows(data, "kernels")["gemm"]
    assert (kernel["calls"], kernel["total_ns"], kernel["longest_ns"]) == (3, 90_000, 30_000)
    copy = table_rows(data, "copies")["Memcpy HtoD"]
    assert (copy["calls"], copy["size_bytes"], copy["sized_calls"]) == (3, 3 * 4096, 3)


def test_a_step_says_what_took_its_time() -> None:
    data = data_of(training_recording())
    steps = data["steps"]
    assert (steps["number"], steps["duration_ns"]) == ([0, 1, 2], [100_000, 200_000, 100_000])
    assert (steps["events"], steps["self_ns"]) == ([6] * 3, [100_000, 200_000, 100_000])
    assert steps["device_ns"] == [40_000] * 3
    names = [data["names"][name] for name in data["ops"]["name"]]
    assert steps["work"][1] == [[0, 1, 30_000], [1, 1, 20_000]]
    assert {names[row]: (calls, self_ns) for row, calls, self_ns in steps["ops"][1]} == {
        "forward": (1, 130_000),
        "aten::mm": (2, 40_000),
        "ProfilerStep": (1, 20_000),
        "cudaLaunchKernel": (1, 5_000),
        "cudaMemcpyAsync": (1, 5_000),
    }


def test_a_step_is_compared_with_the_median_one() -> None:
    data = data_of(training_recording())
    steps = data["steps"]
    names = [data["names"][name] for name in data["ops"]["name"]]
    assert dict(zip(names, steps["usual_ops"]["time_ns"], strict=True))["forward"] == 30_000
    assert steps["usual_ops"]["calls"] == [1, 2, 1, 1, 1]
    assert steps["usual_work"] == {"calls": [1, 1], "time_ns": [30_000, 20_000]}
    assert (steps["median_ns"], steps["counted"], steps["slowest"]) == (100_000, 3, [1])
    # Before `forward` and after it, in no event but the mark of the step.
    assert steps["waits"] == [{"name": "untraced code", "median_ns": 20_000, "time_ns": [20_000] * 3}]


def steps_of(*lengths_ns: int, partial: tuple[int, ...] = ()) -> Recording:
    """Steps with gaps between them, in each an op that takes all its time."""
    builder = RecordingBuilder()
    track = builder.add_track("python")
    at = 0
    for number, length in enumerate(lengths_ns):
        flags = StepFlags.HAS_NUMBER | (StepFlags.PARTIAL if number in partial else StepFlags(0))
        builder.add_step(at, at + length, number, track=track, flags=flags)
        builder.add_event("op", at, at + length, track=track)
        at += length + 10
    return builder.finish()


def test_steps_that_were_cut_off_are_no_measure() -> None:
    steps = data_of(steps_of(900, 10, 30, 20, 800, partial=(0, 4)))["steps"]
    assert (steps["count"], steps["counted"], steps["median_ns"]) == (5, 3, 20)
    assert (steps["lack"], steps["slowest"]) == (["partial", "", "", "", "partial"], [2])
    assert steps["usual_ops"]["time_ns"] == [20]


def test_a_step_of_which_events_are_missing_is_incomplete() -> None:
    builder = RecordingBuilder()
    builder.add_track("python")
    for number in range(4):
        builder.add_step(number * 100, number * 100 + 100, number, flags=StepFlags.HAS_NUMBER)
        if number < 3:
            builder.add_event("op", number * 100, number * 100 + 50)
    builder.add_drops("byte_cap", 7)
    steps = data_of(builder.finish())["steps"]
    assert (steps["lack"], steps["counted"]) == (["", "", "incomplete", "incomplete"], 2)


def test_each_of_the_slowest_steps_has_a_bar() -> None:
    lengths_ns = [50] * (2 * MAX_BARS)
    lengths_ns[10:12] = [400, 300]
    lengths_ns[0], lengths_ns[21] = 10_000, 200
    steps = data_of(steps_of(*lengths_ns, partial=(0,)))["steps"]
    assert [steps["number"][bar] for bar in steps["slowest"]] == [10, 11, 21]
    assert (len(steps["number"]), sum(steps["stands_for"])) == (MAX_BARS + 1, 2 * MAX_BARS)
    # Of a run with a whole step, a partial one says less however long it is.
    assert (steps["number"][0], steps["first_number"][0], steps["lack"][0]) == (1, 0, "")
    assert steps["first_number"][5:8] == [10, 11, 12]


def test_what_ran_on_threads_and_on_devices_is_never_in_one_table() -> None:
    recording = training_recording()
    data = data_of(recording)
    work = table_rows(data, "work")
    assert list(work) == ["gemm", "Memcpy HtoD"]
    assert work["gemm"] == {
        "kind": EventKind.KERNEL, "calls": 3, "total_ns": 90_000, "longest_ns": 30_000,
    }  # fmt: skip
    assert not set(work) & set(table_rows(data, "ops"))


def test_marks_over_device_work_are_in_no_table() -> None:
    builder = RecordingBuilder()
    thread = builder.add_track("main")
    builder.add_event("aten::mm", 0, 10, track=thread)
    stream = builder.add_track("stream 7", TrackKind.STREAM, device=0)
    builder.add_event("forward", 0, 90, track=stream, kind=EventKind.ANNOTATION)
    builder.add_event("void gemm<float>(float*)", 0, 80, track=stream, kind=EventKind.KERNEL)
    builder.add_event("PyTorch Profiler (0)", 0, 90, track=thread, kind=EventKind.SPAN)
    data = data_of(builder.finish())
    assert (list(table_rows(data, "ops")), list(table_rows(data, "work"))) == (["aten::mm"], ["gemm"])
    assert data["marks"] == 1


def test_many_steps_share_bars_that_show_the_slowest() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("python")
    builder.add_event("op", 0, 10)
    for number in range(3 * MAX_BARS):
        length = 90 if number % 3 == 1 else 50
        builder.add_step(number * 100, number * 100 + length, number, track=track, flags=StepFlags.HAS_NUMBER)
    steps = data_of(builder.finish())["steps"]
    assert (steps["count"], len(steps["number"]), set(steps["stands_for"])) == (3 * MAX_BARS, MAX_BARS, {3})
    assert steps["number"] == list(range(1, 3 * MAX_BARS, 3))


def test_an_event_before_and_between_steps_belongs_to_none() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("python")
    for start in (0, 10, 20, 30):
        builder.add_event("op", start, start + 5, track=track)
    builder.add_step(10, 20, 1, track=track)
    builder.add_step(30, 40, 2, track=track)
    assert data_of(builder.finish())["steps"]["events"] == [1, 1]


def test_what_is_missing_is_said() -> None:
    builder = RecordingBuilder()
    builder.add_drops("byte_cap", 12)
    builder.set_stopped(False)
    facts = data_of(builder.finish(), orphan_flows=3, nothing=0)["facts"]
    assert (facts["drops"], facts["problems"], facts["stopped"]) == (
        [["byte_cap", 12]],
        [["orphan_flows", 3]],
        False,
    )


def test_an_empty_recording_has_a_report() -> None:
    data = data_of(Recording.empty())
    assert (data["facts"]["events"], data["ops"]["name"], data["devices"]) == (0, [], [])


def test_too_many_stacks_are_folded_and_none_is_lost() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("python")
    count = 4 * MAX_FRAMES
    ids = [builder.add_name(f"op {number}") for number in range(count)]
    outer = builder.add_name("outer")
    start_ns = np.arange(count) * 100_000
    builder.add_events([outer], [0], [count * 100_000], [track])
    # A later one is wider, so that it is the first ones that do not fit.
    builder.add_events(ids, start_ns, start_ns + np.arange(count) + 1, np.full(count, track))
    recording = builder.finish()
    data = data_of(recording)
    flame = data["flame"]
    assert len(flame["name"]) == MAX_FRAMES + 1
    assert flame["stacks"] == count + 1
    assert sum(flame["folded"]) == count + 1 - MAX_FRAMES
    assert sum(flame["calls"]) == len(recording)
    assert sum(flame["self_ns"]) == flame["time_ns"][0] == count * 100_000
    ops = data["ops"]
    assert (len(ops["name"]), ops["other"]["names"]) == (MAX_TABLE_ROWS, count + 1 - MAX_TABLE_ROWS)
    assert sum(ops["calls"]) + ops["other"]["calls"] == len(recording)
    assert sum(ops["self_ns"]) + ops["other"]["self_ns"] == count * 100_000
    assert len(json.dumps(data)) < 500_000


def test_events_nested_very_deeply_are_counted() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("python")
    depth = 20_000
    start_ns = np.arange(depth)
    builder.add_events(
        np.full(depth, builder.add_name("f")), start_ns, 2 * depth - start_ns, np.full(depth, track)
    )
    flame = data_of(builder.finish())["flame"]
    assert (sum(flame["calls"]), sum(flame["self_ns"])) == (depth, 2 * depth)


@st.composite
def nested_events(draw: st.DrawFn) -> Recording:
    builder = RecordingBuilder()
    tracks = [builder.add_track("", draw(st.sampled_from(TrackKind)), device=0) for _ in range(3)]
    for _ in range(draw(st.integers(0, 25))):
        start_ns, end_ns = sorted([draw(small_times), draw(small_times)])
        builder.add_event(
            draw(st.sampled_from("abc")),
            start_ns,
            end_ns,
            track=draw(st.sampled_from(tracks)),
            kind=draw(st.sampled_from(EventKind)),
            correlation=draw(st.integers(-1, 3)),
        )
    for _ in range(draw(st.integers(0, 4))):
        start_ns, end_ns = sorted([draw(small_times), draw(small_times)])
        builder.add_step(start_ns, end_ns, 0, track=tracks[0])
    return builder.finish()


@given(nested_events())
def test_the_flame_graph_holds_all_self_time_of_threads(recording: Recording) -> None:
    kinds = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
    rows = [
        row
        for row in range(len(recording))
        if recording.tracks[recording.events.track[row]].kind == TrackKind.THREAD
        and recording.events.kind[row] not in kinds
    ]
    flame = data_of(recording)["flame"]
    self_ns = int(recording.tree().self_ns[rows].sum())
    roots = [row for row, parent in enumerate(flame["parent"]) if parent < 0]
    assert sum(flame["calls"]) == len(rows)
    assert sum(flame["self_ns"]) == sum(flame["time_ns"][row] for row in roots) == self_ns
    for row, time_ns in enumerate(flame["time_ns"]):
        below = sum(flame["time_ns"][child] for child, parent in enumerate(flame["parent"]) if parent == row)
        assert below + flame["self_ns"][row] == time_ns


@given(recordings())
def test_whatever_a_recording_holds_is_strict_json(recording: Recording) -> None:
    data = data_of(recording)
    assert json.loads(json.dumps(data, allow_nan=False)) == data


intervals = st.lists(st.tuples(small_times, small_times).map(sorted), max_size=12)


@given(intervals, small_times, small_times)
def test_coverage_counts_each_ns_once(pairs: list[list[int]], one: int, other: int) -> None:
    start_ns = np.array([start for start, _end in pairs], dtype=np.int64)
    coverage = Coverage(start_ns, np.array([end for _start, end in pairs], dtype=np.int64))
    covered = {ns for start, end in pairs for ns in range(start, end)}
    assert coverage.total_ns == len(covered)
    low, high = sorted([one, other])
    within = coverage.within(np.array([low]), np.array([high]))
    assert within.tolist() == [len(covered & set(range(low, high)))]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("aten::mm", "aten::mm"),
        ("", "(no name)"),
        ("é✓ שלום", "é✓ שלום"),
        ("a\tb\n\x01", "a\\tb\\n\\x01"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\ud800", "\\ud800"),
        ("n" * 1001, "n" * MAX_NAME_CHARACTERS + "… (1,001 characters)"),
    ],
)
def test_names_are_harmless_to_show(name: str, text: str) -> None:
    assert shown(name) == text


def test_names_that_differ_after_the_cut_stay_apart() -> None:
    builder = RecordingBuilder()
    builder.add_track("python")
    for start_ns, ending in enumerate("ab"):
        builder.add_event("n" * 2000 + ending, start_ns, start_ns + 1)
    assert len(data_of(builder.finish())["ops"]["name"]) == 2


def test_only_names_that_are_shown_are_in_the_page() -> None:
    data = data_of(hostile_recording())
    used = {*data["ops"]["name"], *data["flame"]["name"]}
    assert sorted(used) == list(range(len(data["names"])))
