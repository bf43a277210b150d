"""The flame graph: distinct stacks of all threads, small ones folded so that the page stays small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.merged_stacks import NO_NODE, MergedStacks, merge_stacks, nearest
from otel_torchprof.exporters.html_report.names import NameGroups, UsedNames
from otel_torchprof.recording import Recording

MAX_FRAMES = 4000
_MAX_DEPTH = 400
OTHER = -1  # in place of a name: what was folded
NO_FRAME = -1
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Frames:
    """Columns by node, of all nodes before any is folded."""

    parent: Numbers
    name: Numbers
    kind: Numbers
    calls: Numbers
    self_ns: Numbers
    time_ns: Numbers  # self time of the node and all below it: adds up whatever ran asynchronously
    device_ns: Numbers  # likewise, of the device work launched there


@dataclass(frozen=True, eq=False)
class FlameGraph:
    """Columns of frames, callers before what they call and wide ones before narrow ones.

    Attributes:
        columns: `parent` (index, -1 = outermost), `name` (-1: `folded` stacks too narrow to keep), `kind`,
            `calls`, `self_ns`, `time_ns`, `device_ns`, `folded`; and the number of distinct `stacks`.
        frame_of_row: the innermost frame that is there for the event, `NO_FRAME` where none is.
    """

    columns: dict[str, Any]
    frame_of_row: Numbers


def flame_graph(
    recording: Recording, groups: NameGroups, used: UsedNames, rows: Numbers, device_ns: Numbers
) -> FlameGraph:
    """The stacks of some events.

    Args:
        rows: the events to show.
        device_ns: by row, the device work that the event launched itself.
    """
    tree = recording.tree()
    name_of_row = groups.group_of_id[recording.events.name]
    stacks = merge_stacks(tree.parent, name_of_row, rows, _MAX_DEPTH)
    frames = _frames(recording, stacks, device_ns)
    kept = _kept(frames)
    columns, place = _order(_fold(frames, kept))
    columns["name"] = [OTHER if name == OTHER else used.numbers([name])[0] for name in columns["name"]]
    # The last entries stand for what has no node or no frame.
    number = np.append(np.cumsum(kept) - 1, NO_FRAME)
    frame_of_node = np.append(place, NO_FRAME)[number[np.append(nearest(frames.parent, kept), NO_NODE)]]
    return FlameGraph({**columns, "stacks": len(stacks)}, frame_of_node[stacks.node_of_row])


def _frames(recording: Recording, stacks: MergedStacks, device_ns: Numbers) -> _Frames:
    self_ns = stacks.sum_of_rows(recording.tree().self_ns)
    return _Frames(
        parent=stacks.parent,
        name=stacks.name,
        kind=recording.events.kind[stacks.first_row].astype(np.int64),
        calls=stacks.sum_of_rows(np.ones(len(recording), dtype=np.int64)),
        self_ns=self_ns,
        time_ns=stacks.sum_of_subtrees(self_ns),
        device_ns=stacks.sum_of_subtrees(stacks.sum_of_rows(device_ns)),
    )


def _kept(frames: _Frames) -> Mask:
    """The widest frames."""
    if len(frames.parent) <= MAX_FRAMES:
        return np.ones(len(frames.parent), dtype=bool)
    # Wider than the widest one too many. What encloses a frame is at least as wide, so it is kept too.
    floor_ns = np.partition(frames.time_ns, -MAX_FRAMES - 1)[-MAX_FRAMES - 1]
    widest: Mask = frames.time_ns > floor_ns
    return widest


def _fold(frames: _Frames, kept: Mask) -> dict[str, Numbers]:
    """The frames that are kept, and for each of them one that stands for all that is not, below it."""
    number = np.cumsum(kept) - 1
    columns = {
        "parent": np.where(frames.parent == NO_NODE, NO_NODE, number[frames.parent])[kept],
        "name": frames.name[kept],
        "kind": frames.kind[kept],
        "calls": frames.calls[kept],
        "self_ns": frames.self_ns[kept],
        "time_ns": frames.time_ns[kept],
        "device_ns": frames.device_ns[kept],
        "folded": np.zeros(int(kept.sum()), dtype=np.int64),
    }
    if kept.all():
        return columns
    others = _others(frames, kept)
    keeper = others.pop("keeper")
    others["parent"] = np.where(keeper == NO_NODE, NO_NODE, number[keeper])
    return {name: np.concatenate([column, others[name]]) for name, column in columns.items()}


def _others(frames: _Frames, kept: Mask) -> dict[str, Numbers]:
    folded = np.flatnonzero(~kept)
    keeper, place = np.unique(nearest(frames.parent, kept)[folded], return_inverse=True)
    place = place.reshape(-1)

    def sums(values: Numbers) -> Numbers:
        result = np.zeros(len(keeper), dtype=np.int64)
        np.add.at(result, place, values[folded])
        return result

    # Of what goes down a subtree only its outermost folded frame counts.
    parents = frames.parent
    outermost = np.where(parents == NO_NODE, True, kept[parents])
    self_ns = sums(frames.self_ns)
    return {
        "keeper": keeper,
        "name": np.full(len(keeper), OTHER, dtype=np.int64),
        "kind": np.full(len(keeper), OTHER, dtype=np.int64),
        "calls": sums(frames.calls),
        "self_ns": self_ns,
        "time_ns": self_ns,
        "device_ns": sums(np.where(outermost, frames.device_ns, 0)),
        "folded": np.bincount(place, minlength=len(keeper)).astype(np.int64),
    }


def _order(columns: dict[str, Numbers]) -> tuple[dict[str, list[int]], Numbers]:
    """The same frames with each one's children right behind it, wide ones first, folded ones last.

    Returns:
        The columns, and where each frame is now.
    """
    children: dict[int, list[int]] = {}
    by_width = np.lexsort((-columns["time_ns"], columns["folded"] > 0)).tolist()
    parents = columns["parent"].tolist()
    for frame in by_width:
        children.setdefault(parents[frame], []).append(frame)
    order: list[int] = []
    pending = list(reversed(children.get(NO_NODE, [])))
    while pending:
        frame = pending.pop()
        order.append(frame)
        pending.extend(reversed(children.get(frame, [])))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    ordered = {name: column[order].tolist() if order else [] for name, column in columns.items()}
    ordered["parent"] = np.append(place, NO_NODE)[ordered["parent"]].tolist() if order else []
    return ordered, place
