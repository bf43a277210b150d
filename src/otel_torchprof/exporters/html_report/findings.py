"""What makes the program slow, and where each finding is on the flame graph and on the lanes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.patterns import Finding, find_patterns
from otel_torchprof.exporters.html_report.activity import NO_LANE, Activity, buckets_with
from otel_torchprof.exporters.html_report.flame import NO_FRAME, FlameGraph
from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.recording import Recording

MAX_FINDINGS = 100
Numbers = npt.NDArray[np.int64]


def findings(
    recording: Recording, problems: Mapping[str, int], flame: FlameGraph, activity: Activity
) -> dict[str, Any]:
    """The `MAX_FINDINGS` most costly ones, how many were `left_out`, and what was `not_checked` and why.

    Figures of a step are of so many `steps`; so many were `steps_left_out`, as they were not recorded whole.

    Shares are of `window_ns`. It `has_slow_step` where the first of the slowest steps stands out from all.

    Of each what `Finding` has, besides `frame` (an index into the flame graph, -1 = none) and `marks` (lanes
    with the runs of their buckets that its events reach into).
    """
    report = find_patterns(recording, problems=problems)
    return {
        "found": [_finding(recording, one, flame, activity) for one in report.findings[:MAX_FINDINGS]],
        "left_out": max(0, len(report.findings) - MAX_FINDINGS),
        "not_checked": [[shown(one.pattern), _line(one.reason)] for one in report.not_checked],
        "steps": report.steps,
        "steps_left_out": report.steps_left_out,
        "has_slow_step": report.slow_step is not None,
        "window_ns": report.window_ns,
    }


def _finding(recording: Recording, finding: Finding, flame: FlameGraph, activity: Activity) -> dict[str, Any]:
    place = finding.place
    return {
        "pattern": shown(finding.pattern),
        "title": _line(finding.title),
        "severity": finding.severity.name.lower(),
        "confidence": finding.confidence.name.lower(),
        "function": _line(place.function),
        "file": f"{_line(place.file)}:{place.line}" if place.file else "",
        "module": _line(place.module),
        "op": _line(place.op),
        "detail": _line(finding.detail),
        "events": finding.count,
        "count_per_step": finding.count_per_step,
        "cost_ns": finding.cost_ns,
        "cost_per_step_ns": finding.cost_per_step_ns,
        "cost_bytes": finding.cost_bytes,
        "saving_ns": [finding.saving.low_ns, finding.saving.high_ns],
        "also": [shown(name) for name in finding.also],
        "advice": _line(finding.advice),
        "example": "\n".join(_line(line) for line in finding.example.splitlines()),
        "url": _line(finding.url),
        "frame": _frame(recording, finding.rows, flame),
        "marks": _marks(recording, finding.rows, activity),
    }


def _line(text: str) -> str:
    return shown(text) if text else ""


def _frame(recording: Recording, rows: Numbers, flame: FlameGraph) -> int:
    """The frame in which the events took most of their time."""
    frames = flame.frame_of_row[rows]
    known = frames != NO_FRAME
    if not known.any():
        return NO_FRAME
    events = recording.events
    time_ns = np.zeros(int(frames.max()) + 1, dtype=np.int64)
    # At least 1 ns each, so that events without duration count too.
    np.add.at(time_ns, frames[known], (events.end_ns - events.start_ns)[rows[known]] + 1)
    return int(np.argmax(time_ns))


def _marks(recording: Recording, rows: Numbers, activity: Activity) -> list[list[Any]]:
    lane = activity.lane_of_track[recording.events.track[rows]]
    return [
        [number, buckets_with(recording, rows[lane == number])]
        for number in np.unique(lane[lane != NO_LANE]).tolist()
    ]
