"""All that the page shows, reduced from a recording to a size that does not depend on how long it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from otel_torchprof.analysis.launches import WORK_KINDS, launched_ns
from otel_torchprof.exporters.html_report.activity import activity
from otel_torchprof.exporters.html_report.counters import counter_tables
from otel_torchprof.exporters.html_report.device import blocking, device_busy, device_tables, devices
from otel_torchprof.exporters.html_report.facts import facts
from otel_torchprof.exporters.html_report.findings import findings
from otel_torchprof.exporters.html_report.flame import flame_graph
from otel_torchprof.exporters.html_report.memory import memory
from otel_torchprof.exporters.html_report.modules import module_rows
from otel_torchprof.exporters.html_report.names import UsedNames, group_names, shown
from otel_torchprof.exporters.html_report.steps import step_bars
from otel_torchprof.exporters.html_report.tables import group_events, table
from otel_torchprof.recording import EventKind, Recording, TrackKind


def report_data(recording: Recording, *, title: str, problems: Mapping[str, int]) -> dict[str, Any]:
    """The data of the page as JSON values; times are ns, moments count from the recording's start."""
    names = group_names(recording)
    used = UsedNames(names)
    groups = group_events(recording, names)
    events = recording.events
    thread_tracks = np.array([track.kind == TrackKind.THREAD for track in recording.tracks] or [False])
    on_thread = thread_tracks[events.track] & ~np.isin(events.kind, WORK_KINDS)
    op_groups = np.flatnonzero(groups.sum_of_rows(on_thread.astype(np.int64)))
    device_ns = launched_ns(recording)
    flame = flame_graph(recording, names, used, np.flatnonzero(on_thread), device_ns)
    timeline = activity(recording)
    elsewhere = ~on_thread & ~np.isin(events.kind, WORK_KINDS)
    return {
        "title": shown(title),
        "facts": facts(recording, problems),
        "kind_names": [kind.name.lower() for kind in EventKind],
        "ops": table(groups, used, op_groups, {"device_ns": groups.sum_of_rows(device_ns)}),
        "elsewhere": int(elsewhere.sum()),
        "steps": step_bars(recording, groups, op_groups, on_thread, device_busy(recording)),
        "findings": findings(recording, flame, timeline),
        "flame": flame.columns,
        "modules": module_rows(recording),
        "memory": memory(recording),
        "activity": timeline.columns,
        "devices": devices(recording),
        "blocking": blocking(recording),
        **device_tables(recording, groups, used),
        "counters": counter_tables(recording),
        "names": used.texts,
    }
