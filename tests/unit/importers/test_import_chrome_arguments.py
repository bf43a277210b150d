"""Arguments of events that no column holds: kept, saved, and written back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otel_torchprof.exporters.chrome import write_trace
from otel_torchprof.importers import load
from otel_torchprof.recording import (
    ARGUMENTS_DTYPE,
    EventFlags,
    Recording,
    RecordingBuilder,
)
from tests.support.chrome_traces import complete, import_events, row_of

COLLECTIVE = {
    "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 8,
    "dtype": "BFloat16", "In split size": "[]", "Process Group Name": "0", "Process Group Description":
    "default_pg", "Process Group Ranks": "[0, 1, 2, 3, 4, 5, 6, 7]", "Rank": 0,
}  # fmt: skip
TRITON = {
    "kernel_file": "/tmp/inductor/cx.py", "kernel_hash": "cxq", "grid": "grid(100,)", "num_warps": 8,
    "num_stages": 1, "stream": 0, "kernel_backend": "triton",
}  # fmt: skip


def written_back(recording: Recording, folder: Path) -> dict[str, dict[str, Any]]:
    """The arguments of the exported trace, by the names of its events."""
    path = folder / "again.json"
    write_trace(recording, path)
    events = json.loads(path.read_text())["traceEvents"]
    return {event["name"]: event["args"] for event in events if event["ph"] in "Xbin"}


@pytest.mark.parametrize(
    ("category", "arguments"),
    [
        ("kernel", {**COLLECTIVE}),
        ("user_annotation", COLLECTIVE),
        ("cpu_op", TRITON),
        ("cpu_op", {"Call stack": "a.py(1): f;b.py(2): g", "Module Hierarchy": "A.B"}),
        ("cuda_runtime", {"kernel": "void k<float>()", "grid": [3, 1, 1], "stream": "0x0", "size": "2560"}),
        ("cpu_op", {"é✓\"\\": ["\t", None, 1.5, {"x": []}]}),
    ],
)  # fmt: skip
def test_they_come_through_every_format(tmp_path: Path, category: str, arguments: dict[str, Any]) -> None:
    recording, report = import_events(tmp_path, [complete("e", 0, 1, cat=category, args=arguments)])
    assert not set(report.problems) - {"launch_not_found"}
    assert recording.arguments_of(0) == arguments

    recording.save(tmp_path / "saved.tprof")
    saved, _ = load(tmp_path / "saved.tprof")
    assert saved.arguments_of(0) == arguments

    exported = written_back(saved, tmp_path)["e"]
    assert {name: exported[name] for name in arguments} == arguments
    again, _ = load(tmp_path / "again.json")
    assert again.arguments_of(0) == arguments


def test_events_that_say_the_same_share_it(tmp_path: Path) -> None:
    events = [complete(f"e{n}", n * 10, 1, args={"Call stack": "a;b", "External id": n}) for n in range(9)]
    recording, _ = import_events(tmp_path, [*events, complete("none", 100, 1)])
    assert len(recording.arguments) == 9
    assert len(set(recording.arguments["text"].tolist())) == 1
    assert recording.arguments_of(row_of(recording, "none")) == {}


def test_what_has_a_place_of_its_own_is_not_kept_twice(tmp_path: Path) -> None:
    known = {
        "External id": 3, "correlation": 4, "device": 0, "stream": 7, "grid": [1, 1, 1], "Ev Idx": 9,
        "queued": 0, "memory bandwidth (GB/s)": 1.5,
    }  # fmt: skip
    recording, _ = import_events(tmp_path, [complete("k", 0, 1, cat="kernel", args=known)])
    assert len(recording.arguments) == 0


def test_an_event_of_a_rare_shape_keeps_them_too(tmp_path: Path) -> None:
    odd = complete("e", "17.5", 1, args={**COLLECTIVE, "Sequence number": "3"})
    recording, _ = import_events(tmp_path, [odd])
    assert recording.arguments_of(0) == COLLECTIVE
    assert recording.events.sequence[0] == 3


def test_asynchronous_events_and_instants_have_arguments(tmp_path: Path) -> None:
    where = {"pid": 1, "tid": 1, "cat": "cpu_op"}
    arguments = {
        "Sequence number": 5, "Fwd thread id": 2, "Overload name": "Tensor", "my": 1,
        "Input Dims": [[2, 3]], "Input type": ["float"],
    }  # fmt: skip
    events = [
        {"ph": "b", "id": 1, "name": "async", "ts": 0, "args": arguments, **where},
        {"ph": "e", "id": 1, "name": "async", "ts": 9, **where},
        {"ph": "i", "name": "instant", "ts": 20, "args": {"my": 2}, **where},
    ]
    recording, report = import_events(tmp_path, events)
    row = row_of(recording, "async")
    columns = recording.events
    assert not report.problems
    assert int(columns.end_ns[row]) == 9_000
    assert int(columns.sequence[row]) == 5
    assert int(columns.forward_thread[row]) == 2
    assert recording.overload_name(int(columns.name[row])) == "Tensor"
    assert recording.inputs(row) is not None
    assert recording.arguments_of(row) == {"my": 1}
    assert recording.arguments_of(row_of(recording, "instant")) == {"my": 2}
    assert written_back(recording, tmp_path)["async"]["my"] == 1


def test_overload_names_and_unfinished_events_come_back(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    track = builder.add_track("main", process_id=1, thread_id=1)
    builder.add_event("aten::add", 0, 10, overload="Tensor", track=track)
    builder.add_event("open", 20, 30, track=track, flags=EventFlags.UNFINISHED)
    write_trace(builder.finish(), tmp_path / "trace.json")
    recording, _ = load(tmp_path / "trace.json")
    name = int(recording.events.name[row_of(recording, "aten::add")])
    assert recording.overload_name(name) == "Tensor"
    assert recording.events.flags.tolist() == [0, EventFlags.UNFINISHED]
    assert len(recording.arguments) == 0


def test_a_builder_refuses_what_is_no_object() -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("a", 0, 1)
    text = builder.add_name("[1]")
    with pytest.raises(ValueError, match="no JSON object"):
        builder.add_arguments(np.array([(0, text, 0)], dtype=ARGUMENTS_DTYPE))
