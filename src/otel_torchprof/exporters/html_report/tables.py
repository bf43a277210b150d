"""Calls and times by name: of what ran on threads, and of what ran on devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.work_totals import WorkTotal
from otel_torchprof.exporters.html_report.names import NameGroups, UsedNames, shown
from otel_torchprof.recording import EventKind, Recording

MAX_TABLE_ROWS = 2000
Numbers = npt.NDArray[np.int64]
_KINDS = max(EventKind) + 1


@dataclass(frozen=True, eq=False)
class EventGroups:
    """Events by name and kind, in order of falling self time."""

    group_of_row: Numbers
    name: Numbers
    kind: Numbers
    first_row: Numbers
    calls: Numbers
    total_ns: Numbers  # a call inside one of its own name counts once
    self_ns: Numbers

    def __len__(self) -> int:
        return len(self.name)

    def sum_of_rows(self, values: Numbers) -> Numbers:
        """For each group the sum over its events; `values` is by row."""
        sums = np.zeros(len(self), dtype=np.int64)
        np.add.at(sums, self.group_of_row, values)
        return sums


def group_events(recording: Recording, names: NameGroups) -> EventGroups:
    """Groups all events of a recording."""
    name_id, kind, first_row, calls, total_ns, self_ns, *_more = recording.native.averages(
        recording.tree().native, False, False, None
    )
    keys = names.group_of_id[name_id] * _KINDS + kind
    distinct, first, place = np.unique(keys, return_index=True, return_inverse=True)
    place = place.reshape(-1)

    def sums(values: npt.NDArray[Any]) -> Numbers:
        result = np.zeros(len(distinct), dtype=np.int64)
        np.add.at(result, place, values.astype(np.int64))
        return result

    all_self_ns = sums(self_ns)
    order = np.lexsort((distinct, -all_self_ns))
    group_of_key = np.zeros(len(names) * _KINDS, dtype=np.int64)
    group_of_key[distinct[order]] = np.arange(len(order))
    events = recording.events
    return EventGroups(
        group_of_row=group_of_key[names.group_of_id[events.name] * _KINDS + events.kind],
        name=distinct[order] // _KINDS,
        kind=distinct[order] % _KINDS,
        first_row=first_row[first][order].astype(np.int64),
        calls=sums(calls)[order],
        total_ns=sums(total_ns)[order],
        self_ns=all_self_ns[order],
    )


def table(
    groups: EventGroups, used: UsedNames, chosen: Numbers, more: dict[str, Numbers] | None = None
) -> dict[str, Any]:
    """Columns of the first `MAX_TABLE_ROWS` of the chosen groups, and `other`: the sums of the rest.

    Args:
        chosen: numbers of groups, in the order to show them.
        more: further columns, by group.
    """
    columns = {
        "kind": groups.kind,
        "calls": groups.calls,
        "total_ns": groups.total_ns,
        "self_ns": groups.self_ns,
        **(more or {}),
    }
    shown, rest = chosen[:MAX_TABLE_ROWS], chosen[MAX_TABLE_ROWS:]
    result: dict[str, Any] = {name: column[shown].tolist() for name, column in columns.items()}
    result["name"] = used.numbers(groups.name[shown].tolist())
    result["other"] = {"names": len(rest), "calls": int(groups.calls[rest].sum())}
    result["other"] |= {
        name: int(column[rest].sum()) for name, column in columns.items() if name.endswith("self_ns")
    }
    return result


def work_table(totals: Sequence[WorkTotal], used: UsedNames) -> dict[str, Any]:
    """Columns of the first `MAX_TABLE_ROWS` names of work on devices, and `other`: the sums of the rest."""
    first, rest = totals[:MAX_TABLE_ROWS], totals[MAX_TABLE_ROWS:]
    return {
        "name": [used.number(shown(total.name)) for total in first],
        "kind": [int(total.kind) for total in first],
        "calls": [total.calls for total in first],
        "total_ns": [total.total_ns for total in first],
        "longest_ns": [total.longest_ns for total in first],
        "other": {
            "names": len(rest),
            "calls": sum(total.calls for total in rest),
            "self_ns": sum(total.total_ns for total in rest),
        },
    }
