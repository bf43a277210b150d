"""All that the page shows, reduced from a recording to a size that does not depend on how long it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.averages import Side, is_on_side
from otel_torchprof.analysis.device_work import DeviceWork
from otel_torchprof.analysis.launches import WORK_KINDS, launched_ns
from otel_torchprof.analysis.step_self_times import StepSelfTimes
from otel_torchprof.analysis.steps import StepTimes
from otel_torchprof.analysis.work_totals import WorkNames, name_work
from otel_torchprof.exporters.html_report.activity import activity
from otel_torchprof.exporters.html_report.counters import counter_tables
from otel_torchprof.exporters.html_report.device import blocking, device_busy, device_tables, devices
from otel_torchprof.exporters.html_report.facts import facts
from otel_torchprof.exporters.html_report.findings import findings
from otel_torchprof.exporters.html_report.flame import flame_graph
from otel_torchprof.exporters.html_report.memory import memory
from otel_torchprof.exporters.html_report.modules import module_rows
from otel_torchprof.exporters.html_report.names import UsedNames, group_names, shown
from otel_torchprof.exporters.html_report.steps import TimesByRow, step_bars
from otel_torchprof.exporters.html_report.tables import EventGroups, group_events, table, work_table
from otel_torchprof.recording import EventKind, Recording, TrackKind


def report_data(recording: Recording, *, title: str, problems: Mapping[str, int]) -> dict[str, Any]:
    """The data of the page as JSON values; times are ns, moments count from the recording's start."""
    names = group_names(recording)
    used = UsedNames(names)
    groups = group_events(recording, names)
    events = recording.events
    thread_tracks = np.array([track.kind == TrackKind.THREAD for track in recording.tracks] or [False])
    on_thread = thread_tracks[events.track] & ~np.isin(events.kind, WORK_KINDS)
    op_groups = np.flatnonzero(is_on_side(Side.THREADS, groups.kind))
    work = DeviceWork.of(recording)
    work_names = name_work(work)
    device_ns = launched_ns(recording)
    flame = flame_graph(recording, names, used, np.flatnonzero(on_thread), device_ns)
    timeline = activity(recording)
    times = StepTimes.of(recording, problems)
    return {
        "title": shown(title),
        "facts": facts(recording, problems),
        "kind_names": [kind.name.lower() for kind in EventKind],
        "ops": table(groups, used, op_groups, {"device_ns": groups.sum_of_rows(device_ns)}),
        "work": work_table(work_names.totals, used),
        "marks": int(is_on_side(Side.MARKS, events.kind).sum()),
        "steps": step_bars(
            recording,
            times,
            _ops_by_row(recording, times, groups, op_groups),
            _work_by_row(times, work, work_names),
            device_busy(recording),
        ),
        "findings": findings(recording, problems, flame, timeline),
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


def _ops_by_row(
    recording: Recording, times: StepTimes, groups: EventGroups, op_groups: npt.NDArray[np.int64]
) -> TimesByRow:
    """What ran on threads, with its row in the table of operators."""
    table_row = np.full(len(groups), -1, dtype=np.int64)
    table_row[op_groups] = np.arange(len(op_groups))
    row_of_event = table_row[groups.group_of_row]
    own = StepSelfTimes.of(recording, times, np.flatnonzero(row_of_event >= 0))
    return TimesByRow(own.step, row_of_event[own.row], own.self_ns, own.is_call, len(op_groups))


def _work_by_row(times: StepTimes, work: DeviceWork, names: WorkNames) -> TimesByRow:
    """What ran on devices, with its row in the table of that; it belongs to the step in which it begins."""
    is_call = np.ones(len(work.rows), dtype=bool)
    return TimesByRow(times.at(work.start_ns), names.index, work.duration_ns, is_call, len(names.totals))
