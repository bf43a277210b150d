"""Counters in Chrome traces: a track a thread, arguments of what was counted over; and back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from otel_torchprof.analysis.counters import counter_totals
from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from tests.support.chrome_rules import broken_rules, of_phase, read_strictly
from tests.support.counted_recordings import counted_recording


def test_threads_have_tracks_and_events_have_arguments(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    export(counted_recording(estimated=True), path)
    trace = read_strictly(path)
    assert broken_rules(trace) == []
    tracks = {(event["name"], event.get("id"), *event["args"]) for event in of_phase(trace, "C")}
    assert tracks == {
        ("page-faults", 100, "count"),
        ("page-faults", 200, "count"),
        ("task-clock", 100, "estimate"),
        ("GPU 0 Utilization", None, "value"),
    }
    arguments = {event["name"]: event["args"] for event in of_phase(trace, "X")}
    assert arguments["forward"]["Counters"] == {"page-faults": 3}
    assert arguments["forward"]["Estimated counters"] == {"task-clock": 700}
    assert arguments["aten::mm"]["Counters"] == {"page-faults": 2}
    assert "Estimated counters" not in arguments["aten::mm"]
    assert {"Ev Idx", "External id"} <= set(arguments["forward"])


@pytest.mark.parametrize("estimated", [False, True])
def test_they_come_back(tmp_path: Path, estimated: bool) -> None:
    recording = counted_recording(estimated=estimated)
    export(recording, tmp_path / "trace.json")
    again, report = load(tmp_path / "trace.json")
    assert dict(report.problems) == {}
    before, after = counter_totals(recording), counter_totals(again)
    assert after.counters == before.counters
    assert after.estimated == before.estimated
    assert after.events == before.events
    for field in ("by_step", "by_thread", "by_event"):
        np.testing.assert_array_equal(getattr(after, field), getattr(before, field))
    assert len(again.arguments) == 0


def test_arguments_beside_them_stay(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(
        '{"traceEvents": ['
        '{"ph": "X", "cat": "cpu_op", "name": "op", "pid": 1, "tid": 2, "ts": 1, "dur": 5, '
        '"args": {"colour": "blue", "Counters": {"cycles": 7, "odd": "x", "huge": 1e999}}}, '
        '{"ph": "X", "cat": "cpu_op", "name": "other", "pid": 1, "tid": 2, "ts": 10, "dur": 5, '
        '"args": {"Counters": [1]}}]}'
    )
    recording, _report = load(path)
    totals = counter_totals(recording)
    assert (totals.counters, totals.by_event.tolist()) == (("cycles",), [[7]])
    assert recording.arguments_of(0) == {"colour": "blue"}
    assert recording.arguments_of(1) == {"Counters": [1]}
