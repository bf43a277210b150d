"""When each thread and stream had something to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.analysis.launches import WORK_KINDS
from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.recording import Recording, Track, TrackKind

MAX_LANES = 32
BUCKETS = 300
NO_LANE = -1


@dataclass(frozen=True, eq=False)
class Activity:
    """Attributes:
    columns: `lanes` with their `name`, `stream`, `events`, `busy_ns` and `percent`; how many were `left_out`.
    lane_of_track: indexes into `lanes`, `NO_LANE` where a track has none.
    """

    columns: dict[str, Any]
    lane_of_track: npt.NDArray[np.int64]


def activity(recording: Recording) -> Activity:
    """The busiest threads and streams: how busy in each of `BUCKETS` parts of the recording, in percent.

    A thread is busy while it is in an event, a stream while a kernel or a copy runs.
    """
    tracks, events = recording.tracks, recording.events
    bounds = np.searchsorted(events.track, np.arange(len(tracks) + 1))
    busy: list[tuple[int, int, Coverage]] = []
    for index, track in enumerate(tracks):
        rows = slice(int(bounds[index]), int(bounds[index + 1]))
        if track.kind == TrackKind.OTHER or rows.start == rows.stop:
            continue
        works = np.isin(events.kind[rows], WORK_KINDS) if track.kind == TrackKind.STREAM else slice(None)
        coverage = Coverage(events.start_ns[rows][works], events.end_ns[rows][works])
        if track.kind == TrackKind.STREAM and not coverage.total_ns:
            continue  # marks and waits only
        busy.append((index, rows.stop - rows.start, coverage))
    busy.sort(key=lambda lane: -lane[2].total_ns)
    kept = sorted(busy[:MAX_LANES], key=lambda lane: (tracks[lane[0]].kind, lane[0]))
    edges = _edges(recording)
    lane_of_track = np.full(len(tracks), NO_LANE, dtype=np.int64)
    lane_of_track[[index for index, _events, _coverage in kept]] = np.arange(len(kept))
    columns = {
        "lanes": [
            {
                "name": _lane_name(tracks[index]),
                "stream": tracks[index].kind == TrackKind.STREAM,
                "events": count,
                "busy_ns": coverage.total_ns,
                "percent": _percent(coverage, edges),
            }
            for index, count, coverage in kept
        ],
        "left_out": len(busy) - len(kept),
    }
    return Activity(columns, lane_of_track)


def buckets_with(recording: Recording, rows: npt.NDArray[np.int64]) -> list[list[int]]:
    """First and last of each run of buckets that some events reach into."""
    edges = _edges(recording)[1:-1]
    first = np.searchsorted(edges, recording.events.start_ns[rows], side="right")
    last = np.searchsorted(edges, recording.events.end_ns[rows], side="left")
    change = np.zeros(BUCKETS + 1, dtype=np.int64)
    np.add.at(change, first, 1)
    # What has no length lies in the bucket that it begins in.
    np.add.at(change, np.maximum(first, last) + 1, -1)
    inside = np.concatenate([[0], (np.cumsum(change) > 0).astype(np.int64)])
    bounds = np.flatnonzero(np.diff(inside)).reshape(-1, 2)
    return [[begin, end - 1] for begin, end in bounds.tolist()]


def _edges(recording: Recording) -> npt.NDArray[np.int64]:
    length_ns = recording.end_ns - recording.start_ns
    return np.array(
        [recording.start_ns + length_ns * bucket // BUCKETS for bucket in range(BUCKETS + 1)], dtype=np.int64
    )


def _percent(coverage: Coverage, edges: npt.NDArray[np.int64]) -> list[int]:
    length_ns = np.maximum(np.diff(edges), 1)
    covered_ns = np.diff(coverage.until(edges))
    # Something that is there is never shown as nothing.
    percent: list[int] = np.ceil(np.clip(covered_ns / length_ns, 0, 1) * 100).astype(np.int64).tolist()
    return percent


def _lane_name(track: Track) -> str:
    name = track.name or f"{'stream' if track.kind == TrackKind.STREAM else 'thread'} {track.thread_id}"
    return shown(f"device {track.device}: {name}" if track.device >= 0 else name)
