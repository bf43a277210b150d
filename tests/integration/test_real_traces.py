"""Traces that other people recorded, against an independent reader of a few lines."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otel_torchprof.exporters import export
from otel_torchprof.importers import ImportReport, UnreadableInputError, load
from otel_torchprof.recording import EventKind, LinkType, Recording, Step, StepFlags, TrackKind
from tests.support.test_data import DATA, needs_data

FILES = sorted(path for path in DATA.rglob("*") if path.is_file() and path.suffix != ".md")
KINETO = [path for path in FILES if path.parent.name == "kineto" and "execution_trace" not in path.name]
NO_TRACES = {
    "profile.otlp": "neither a recording nor a trace",
    "simple_add_execution_trace.json.gz": "is an execution trace of torch's ExecutionTraceObserver",
    "events.json": "no trace in it",
    "logs.json": "no trace in it",
    "metrics.json": "no trace in it",
}

pytestmark = needs_data

KERNELS = {"kernel", "Kernel"}
ON_DEVICE = KERNELS | {"gpu_memcpy", "gpu_memset", "cuda_sync", "Memcpy", "Memset"}
CALLS = {"cuda_runtime", "cuda_driver", "Runtime"}


@cache
def imported(path: Path) -> tuple[Recording, ImportReport]:
    return load(path)


@cache
def events_of(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    return events


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_is_imported_or_refused_in_one_line(path: Path) -> None:
    if path.name in NO_TRACES:
        with pytest.raises(UnreadableInputError, match=NO_TRACES[path.name]) as caught:
            load(path)
        assert "\n" not in str(caught.value)
    else:
        recording, report = imported(path)
        assert report.counts["events"] == len(recording)


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_counts_are_those_of_an_independent_reader(path: Path) -> None:
    events = events_of(path)
    slices = [event for event in events if event["ph"] == "X"]
    instants = [event for event in events if event["ph"] == "i" and event["name"] != "[memory]"]
    memory = [event for event in events if event["name"] == "[memory]"]
    steps = [
        event
        for event in slices
        if event["name"].startswith("ProfilerStep#") and event["cat"] in {"user_annotation", "Operator"}
    ]
    recording, report = imported(path)
    assert report.counts["events"] == len(slices) + len(instants)
    assert report.counts["kernels"] == sum(event["cat"] in KERNELS for event in slices)
    assert report.counts["memory_events"] == len(memory)
    assert report.counts["steps"] == len(steps)
    assert Counter(written_name(recording, row) for row in range(len(recording))) == Counter(
        event["name"] for event in slices + instants
    )


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_spans_read_back_have_the_steps_and_times(path: Path, tmp_path: Path) -> None:
    recording, _report = imported(path)
    export(recording, tmp_path / "spans.otlp")
    read_back, _report = load(tmp_path / "spans.otlp")
    assert self_times(read_back) == self_times(recording)
    assert [whole_step(step) for step in read_back.steps] == [whole_step(step) for step in recording.steps]


def self_times(recording: Recording) -> dict[tuple[str, int], tuple[int, int]]:
    """Count and self time by name and kind."""
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for row, self_ns in enumerate(recording.tree().self_ns.tolist()):
        key = (recording.event_name(row)[:200], int(recording.events.kind[row]))  # spans cut longer ones
        count, total_ns = found.get(key, (0, 0))
        found[key] = (count + 1, total_ns + self_ns)
    return found


def whole_step(step: Step) -> tuple[int, int, int, bool]:
    is_whole = not step.flags & (StepFlags.PARTIAL | StepFlags.UNFINISHED)
    return step.number, step.start_ns, step.end_ns, is_whole


def written_name(recording: Recording, row: int) -> str:
    """As Kineto writes it: what Python called with its place or kind, which a recording keeps beside it."""
    name, place = recording.event_name(row), recording.overload_name(int(recording.events.name[row]))
    if recording.events.kind[row] == EventKind.PYTHON_C and not name.startswith("<"):
        return f"<built-in function {name}>"
    if recording.events.kind[row] != EventKind.PYTHON or not place:
        return name
    file, line = place.rsplit(":", 1)
    return f"{file}({line}): {name}"


def launcher_ids(slices: list[dict[str, Any]]) -> tuple[set[Any], set[Any]]:
    calls = {event["args"]["correlation"] for event in slices if event["cat"] in CALLS}
    ops = {event["args"].get("External id") for event in slices if event["cat"] == "cpu_op"}
    return calls, ops - {None}


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_kernels_are_linked_to_what_launched_them(path: Path) -> None:
    slices = [event for event in events_of(path) if event["ph"] == "X"]
    calls, ops = launcher_ids(slices)
    launched = [event for event in slices if event["cat"] in ON_DEVICE]
    linked = [
        event
        for event in launched
        if event["args"]["correlation"] in calls or event["args"].get("External id") in ops
    ]
    recording, report = imported(path)
    assert report.counts["launches_linked"] == len(linked)
    assert report.counts["kernels_linked"] == sum(event["cat"] in KERNELS for event in linked)

    columns = recording.events
    is_launch = recording.links.type == LinkType.LAUNCH
    for launcher, work in zip(
        recording.links.from_event[is_launch], recording.links.to_event[is_launch], strict=True
    ):
        if columns.kind[launcher] != EventKind.OP:
            assert columns.correlation[launcher] == columns.correlation[work]
            assert columns.kind[launcher] in {EventKind.RUNTIME, EventKind.DRIVER}


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_orphan_flows_are_counted(path: Path) -> None:
    flows = [event for event in events_of(path) if event["ph"] in {"s", "f"}]
    starts = {(event["cat"], event["id"]) for event in flows if event["ph"] == "s"}
    ends = Counter((event["cat"], event["id"]) for event in flows if event["ph"] == "f")
    problems = imported(path)[1].problems
    assert problems["flow_end_without_start"] == sum(n for key, n in ends.items() if key not in starts)
    assert problems["flow_start_without_end"] == len(starts - set(ends))


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_an_imported_trace_survives_being_saved(path: Path, tmp_path: Path) -> None:
    recording, report = imported(path)
    recording.save(tmp_path / "trace.tprof")
    again, report_again = load(tmp_path / "trace.tprof")
    assert report_again.format == "tprof"
    totals = {
        key: n for key, n in report.counts.items() if not key.startswith(("kernels_", "launches_linked_"))
    }
    assert dict(report_again.counts) == totals
    assert (again.events.start_ns == recording.events.start_ns).all()
    assert (again.events.end_ns == recording.events.end_ns).all()
    for table in ("devices", "counters", "memory"):
        assert getattr(again, table).tobytes() == getattr(recording, table).tobytes()


def facts(recording: Recording) -> tuple[Counter[Any], Counter[Any]]:
    """What must survive: name, times and kind of each event; both ends of each link. Spans cut long names."""
    columns, table = recording.events, recording.links
    events = [
        (
            recording.event_name(row)[:1000],
            int(columns.start_ns[row]),
            int(columns.end_ns[row]),
            int(columns.kind[row]),
        )
        for row in range(len(recording))
    ]
    return Counter(events), Counter(
        (events[int(a)], events[int(b)], int(kind))
        for a, b, kind in zip(table.from_event, table.to_event, table.type, strict=True)
    )


# Of the table of devices, what spans have attributes for.
DEVICE_FIELDS = [
    "grid", "block", "registers", "shared_bytes", "size_bytes", "wait_stream", "wait_event",
    "wait_correlation",
]  # fmt: skip


def device_facts(recording: Recording) -> Counter[Any]:
    """Of work on devices: its name, start, correlation id, device, stream and how it was launched."""
    columns, tracks = recording.events, recording.tracks
    facts: Counter[Any] = Counter()
    for record in recording.devices:
        row = int(record["event"])
        track = tracks[int(columns.track[row])]
        if track.kind == TrackKind.STREAM:
            known = tuple(np.asarray(record[name]).tolist() for name in DEVICE_FIELDS)
            correlation = int(columns.correlation[row]) if len(columns.correlation) else -1
            ids = (int(columns.start_ns[row]), correlation, track.device, track.thread_id)
            facts[str((recording.event_name(row)[:1000], *ids, *known))] += 1
    return facts


@pytest.mark.parametrize("path", KINETO, ids=lambda path: path.name)
def test_a_trace_survives_being_sent_as_spans(path: Path, tmp_path: Path) -> None:
    recording, _ = imported(path)
    export(recording, tmp_path / "spans.otlp")
    again, report = load(tmp_path / "spans.otlp")
    assert report.format == "otlp"
    assert facts(again) == facts(recording)
    assert device_facts(again) == device_facts(recording)
    assert steps_of(again) == steps_of(recording)


def steps_of(recording: Recording) -> list[tuple[int, int, int]]:
    return sorted((step.number, step.start_ns, step.end_ns) for step in recording.steps)


def test_no_slice_ends_before_it_starts_and_times_are_exact() -> None:
    path = next(path for path in KINETO if path.name.startswith("h100"))
    recording, _ = imported(path)
    base = 1751410836000000000
    row = next(row for row in range(len(recording)) if recording.event_name(row) == "ProfilerStep#6")
    assert recording.events.start_ns[row] == base + 1419247332972313
    assert recording.events.end_ns[row] - recording.events.start_ns[row] == 4426114
    assert (recording.events.end_ns >= recording.events.start_ns).all()
