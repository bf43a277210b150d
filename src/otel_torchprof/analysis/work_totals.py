"""Work on devices by short name: the table beside that of what ran on threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.device_work import DeviceWork
from otel_torchprof.analysis.event_names import names_of, short_kernel_name
from otel_torchprof.recording import EventKind

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WorkTotal:
    """All work on devices of one short name. What ran side by side counts in full."""

    name: str
    kind: EventKind
    calls: int
    total_ns: int
    longest_ns: int


@dataclass(frozen=True, eq=False)
class WorkNames:
    """Kernels by short name, copies and fills by what they copy where; the longest in total first.

    Attributes:
        totals: of all the work.
        index: for each row of the work its place in `totals`.
    """

    totals: list[WorkTotal]
    index: Numbers


def name_work(work: DeviceWork) -> WorkNames:
    """Groups work by name."""
    is_kernel = work.kind == EventKind.KERNEL
    names: list[str] = []
    index = np.zeros(len(work.rows), dtype=np.int64)
    for chosen, shorten in ((is_kernel, short_kernel_name), (~is_kernel, str)):
        place, added = names_of(work.recording, work.rows[chosen], shorten)
        index[chosen] = len(names) + place
        names += added
    calls = np.bincount(index, minlength=len(names))
    total_ns, longest_ns, kind = np.zeros((3, len(names)), dtype=np.int64)
    np.add.at(total_ns, index, work.duration_ns)
    np.maximum.at(longest_ns, index, work.duration_ns)
    kind[index] = work.kind
    columns = (calls.tolist(), total_ns.tolist(), longest_ns.tolist(), kind.tolist())
    totals = [
        WorkTotal(name, EventKind(kind_of), called, total, longest)
        for name, called, total, longest, kind_of in zip(names, *columns, strict=True)
    ]
    order = sorted(range(len(names)), key=lambda place: (-totals[place].total_ns, names[place]))
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return WorkNames([totals[place] for place in order], rank[index])
