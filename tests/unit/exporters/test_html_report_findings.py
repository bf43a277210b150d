"""Findings in the report's data: what they say, and where they lead on the page."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.patterns import find_patterns
from otel_torchprof.exporters.html_report import findings
from otel_torchprof.exporters.html_report.activity import BUCKETS, buckets_with
from otel_torchprof.exporters.html_report.flame import MAX_FRAMES
from otel_torchprof.exporters.html_report.report_data import report_data
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder
from tests.support.finding_recordings import HOSTILE_FILE, HOSTILE_FUNCTION, recording_with_findings
from tests.support.recordings import recordings


def data_of(recording: Recording) -> dict[str, Any]:
    return report_data(recording, title="a recording", problems={})


def path_of(data: dict[str, Any], frame: int) -> list[str]:
    path: list[str] = []
    while frame >= 0:
        path.insert(0, data["names"][data["flame"]["name"][frame]])
        frame = data["flame"]["parent"][frame]
    return path


def test_a_finding_says_all_that_was_found() -> None:
    data = data_of(recording_with_findings())
    costly, cheap = data["findings"]["found"]
    assert {key: costly[key] for key in ("pattern", "severity", "confidence", "function", "file", "op")} == {
        "pattern": "for-loop-indexing",
        "severity": "high",
        "confidence": "high",
        "function": "fill",
        "file": "/home/me/fill.py:7",
        "op": "aten::select",
    }
    assert (costly["events"], costly["count_per_step"], costly["cost_ns"]) == (39, 19.5, 195_000)
    assert costly["saving_ns"] == [97_500, 191_100]
    assert "torch.arange(100)" in costly["example"]
    assert (cheap["function"], cheap["file"], cheap["severity"]) == (
        HOSTILE_FUNCTION, f"{HOSTILE_FILE}:3", "medium",
    )  # fmt: skip


def test_it_leads_to_the_frame_and_to_the_lanes_of_its_events() -> None:
    data = data_of(recording_with_findings())
    costly, cheap = data["findings"]["found"]
    assert path_of(data, costly["frame"]) == ["fill", "aten::select"]
    assert path_of(data, cheap["frame"]) == [HOSTILE_FUNCTION, "aten::select"]
    # 300 buckets of 3.33 us: what begins at 600 us begins the 180th, what ends at 638.2 us ends in the 191st.
    assert cheap["marks"] == [[0, [[180, 191]]]]
    ((lane, runs),) = costly["marks"]
    assert (lane, runs[0], runs[-1]) == (0, [30, 31], [87, 87])


def test_what_was_not_checked_is_there_with_what_it_needs() -> None:
    recording = recording_with_findings()
    not_checked = data_of(recording)["findings"]["not_checked"]
    assert not_checked == [[one.pattern, one.reason] for one in find_patterns(recording).not_checked]
    assert ["tensor-from-list", "needs shapes of inputs (record_shapes)"] in not_checked


def test_of_too_many_the_most_costly_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "MAX_FINDINGS", 1)
    data = data_of(recording_with_findings())["findings"]
    assert ([one["function"] for one in data["found"]], data["left_out"]) == (["fill"], 1)


def test_an_event_of_a_stack_too_narrow_to_keep_leads_to_what_encloses_it() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("main")
    length_ns = 1_000 * (MAX_FRAMES + 2)
    builder.add_event("loop", 0, length_ns, track=track, kind=EventKind.USER)
    for number in range(MAX_FRAMES + 1):
        builder.add_event(f"op {number}", number * 1_000, number * 1_000 + 500, track=track)
    for number in range(50):
        start_ns = length_ns - 900 + number * 10
        builder.add_event("aten::select", start_ns, start_ns + 1, track=track)
        builder.add_event("aten::fill_", start_ns + 2, start_ns + 3, track=track)
    data = data_of(builder.finish())
    (found,) = data["findings"]["found"]
    assert path_of(data, found["frame"]) == ["loop"]


@given(recordings())
def test_whatever_the_recording_findings_lead_to_what_is_there(recording: Recording) -> None:
    data = data_of(recording)
    for found in data["findings"]["found"]:
        assert -1 <= found["frame"] < len(data["flame"]["name"])
        for lane, runs in found["marks"]:
            assert 0 <= lane < len(data["activity"]["lanes"])
            assert all(0 <= first <= last < BUCKETS for first, last in runs)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 200)), min_size=1, max_size=20))
def test_buckets_are_those_that_events_reach_into(times: list[tuple[int, int]]) -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    for start_ns, length_ns in times:
        builder.add_event("op", start_ns, start_ns + length_ns)
    builder.add_event("whole", 0, BUCKETS * 10)  # buckets of 10 ns
    recording = builder.finish()
    rows = np.flatnonzero([recording.event_name(row) == "op" for row in range(len(recording))])
    runs = buckets_with(recording, rows)
    marked = {bucket for first, last in runs for bucket in range(first, last + 1)}
    expected = {
        bucket
        for start_ns, length_ns in times
        for bucket in range(start_ns // 10, (start_ns + max(length_ns, 1) - 1) // 10 + 1)
    }
    assert marked == expected
    assert all(first > last + 1 for (_, last), (first, _) in pairwise(runs))
