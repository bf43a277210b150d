"""The counters on the page: tables by step, thread and span."""

from __future__ import annotations

from typing import Any

from otel_torchprof.exporters.html_report.counters import MAX_COUNTER_ROWS, counter_tables
from otel_torchprof.exporters.html_report.report_data import report_data
from otel_torchprof.recording import Recording, RecordingBuilder, StepFlags
from tests.support.counted_recordings import counted_recording


def test_tables_of_a_small_recording() -> None:
    data = report_data(counted_recording(estimated=True), title="counted", problems={})["counters"]
    assert data == {
        "names": ["page-faults", "task-clock"],
        "units": ["", "ns"],
        "estimated": [False, True],
        "steps": {"name": ["step 4", "step 5"], "values": [[7, 950], [4, 990]], "left_out": 0},
        "threads": {
            "name": ["main (100)", "worker (200)"],
            "values": [[1109, 1940], [2, None]],
            "left_out": 0,
        },
        "spans": {
            "name": ["forward", "aten::mm"],
            "values": [[3, 700], [2, None]],
            "left_out": 0,
            "calls": [1, 1],
        },
        "total": [1111, 1940],
    }


def test_a_recording_without_counters_has_none() -> None:
    data = counter_tables(Recording.empty())
    assert (data["names"], data["threads"]["name"], data["total"]) == ([], [], [])


def test_long_tables_are_cut() -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    for number in range(MAX_COUNTER_ROWS + 7):
        builder.add_step(number, number + 1, number, flags=StepFlags.HAS_NUMBER)
    steps: dict[str, Any] = counter_tables(builder.finish())["steps"]
    assert (len(steps["name"]), steps["left_out"]) == (MAX_COUNTER_ROWS, 7)
    assert steps["name"][-1] == "step 999"
