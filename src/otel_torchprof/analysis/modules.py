"""What each module of a model cost: forward, backward, on the device, in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.launches import launched_ns
from otel_torchprof.analysis.merged_stacks import NO_NODE, MergedStacks, merge_stacks, nearest
from otel_torchprof.recording import EventFlags, EventKind, Recording

Numbers = npt.NDArray[np.int64]
_METADATA_PREFIX = "modules."
_NAME_PREFIX = "nn.Module: "  # of torch's own profiler


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A module as called from within those above it. Times are ns.

    What a total counts is of the module and of all called within it, what a self value counts of the module
    alone. Backward time is that of the backward ops whose forward ops ran in the module.
    """

    class_name: str
    path: str  # from the outermost module, empty for itself and for what it does not hold
    parent: int  # index of the row of the calling module, smaller than the row's; -1 = none
    depth: int
    calls: int
    training_calls: int
    forward_ns: int
    self_forward_ns: int
    backward_ns: int
    self_backward_ns: int
    device_ns: int  # of kernels and copies that the forward and the backward launched
    self_device_ns: int
    allocated_bytes: int  # by the forward; 0 without recorded memory
    freed_bytes: int
    parameter_count: int | None  # with all below; None where it is not known
    parameter_bytes: int | None


@dataclass(frozen=True, eq=False)
class ModuleTree:
    """Modules, callers before what they call, and which row of the recording belongs to which."""

    rows: list[ModuleRow]
    module_of_row: Numbers  # index into `rows` of the innermost module around each event; -1 = none

    def __len__(self) -> int:
        return len(self.rows)


def module_tree(recording: Recording) -> ModuleTree:
    """The modules that a recording saw called; empty when it has none.

    Backward ops belong to the module of their forward op, also where they run inside another module's call.
    """
    events = recording.events
    is_module = events.kind == EventKind.MODULE
    rows = np.flatnonzero(is_module)
    if not len(rows):
        return ModuleTree([], np.full(len(recording), -1, dtype=np.int64))
    parent = recording.tree().parent
    merged = merge_stacks(parent, events.name.astype(np.int64), rows, max_depth=len(recording))
    around = nearest(parent, is_module)
    forward_node = np.where(around < 0, NO_NODE, merged.node_of_row[around])
    backward_node = _backward_nodes(recording, forward_node)
    node_of_row = np.where(backward_node != NO_NODE, backward_node, forward_node)

    duration_ns = events.end_ns - events.start_ns
    forward_ns = merged.sum_of_rows(duration_ns)
    inner_ns = np.zeros(len(merged), dtype=np.int64)
    np.add.at(inner_ns, merged.parent[merged.parent != NO_NODE], forward_ns[merged.parent != NO_NODE])
    is_outermost = _outermost_backward(recording, parent)
    self_backward_ns = merged.sum_of_rows(np.where(is_outermost, duration_ns, 0), backward_node)
    self_device_ns = merged.sum_of_rows(launched_ns(recording), node_of_row)
    self_allocated, self_freed = _memory(recording, forward_node, merged)
    training = (events.flags & EventFlags.TRAINING) != 0
    columns = {
        "calls": merged.sum_of_rows(is_module.astype(np.int64)),
        "training_calls": merged.sum_of_rows(training.astype(np.int64)),
        "forward_ns": forward_ns,
        "self_forward_ns": np.maximum(forward_ns - inner_ns, 0),
        "backward_ns": merged.sum_of_subtrees(self_backward_ns),
        "self_backward_ns": self_backward_ns,
        "device_ns": merged.sum_of_subtrees(self_device_ns),
        "self_device_ns": self_device_ns,
        "allocated_bytes": merged.sum_of_subtrees(self_allocated),
        "freed_bytes": merged.sum_of_subtrees(self_freed),
    }
    order = list(_in_order_of_calls(merged))
    place = np.empty(len(merged) + 1, dtype=np.int64)
    place[-1] = -1  # NO_NODE
    place[order] = np.arange(len(order))
    return ModuleTree(list(_make_rows(recording, merged, columns, order, place)), place[node_of_row])


def _backward_nodes(recording: Recording, forward_node: Numbers) -> Numbers:
    """The node that a backward op and all within it belong to."""
    backward, forward = (rows.astype(np.int64) for rows in recording.links.forward_backward_links())
    node = np.full(len(recording), NO_NODE, dtype=np.int64)
    node[backward] = forward_node[forward]
    linked = np.zeros(len(recording), dtype=bool)
    linked[backward] = True
    around = nearest(recording.tree().parent, linked)
    return np.where(around < 0, NO_NODE, node[around])


def _outermost_backward(recording: Recording, parent: Numbers) -> npt.NDArray[np.bool_]:
    """Linked backward ops that no other encloses: a node of the graph is recorded twice, as the call and as
    what the engine does around it."""
    backward, _forward = recording.links.forward_backward_links()
    linked = np.zeros(len(recording), dtype=bool)
    linked[backward.astype(np.int64)] = True
    around = nearest(parent, linked)
    enclosing = np.where(parent < 0, -1, around[parent])
    return linked & (enclosing < 0)


def _memory(recording: Recording, node_of_row: Numbers, merged: MergedStacks) -> tuple[Numbers, Numbers]:
    """Bytes allocated and freed by the forward of each node itself."""
    allocated = np.zeros(len(recording), dtype=np.int64)
    freed = np.zeros(len(recording), dtype=np.int64)
    memory = recording.memory
    known = memory[memory["event"] >= 0]
    size_bytes, row = known["size_bytes"], known["event"].astype(np.int64)
    np.add.at(allocated, row, np.maximum(size_bytes, 0))
    np.add.at(freed, row, np.maximum(-size_bytes, 0))
    return merged.sum_of_rows(allocated, node_of_row), merged.sum_of_rows(freed, node_of_row)


def _in_order_of_calls(merged: MergedStacks) -> Iterator[int]:
    """Nodes depth first, siblings in the order of their first calls."""
    children: dict[int, list[int]] = {}
    for node, above in enumerate(merged.parent.tolist()):
        children.setdefault(above, []).append(node)
    first_row = merged.first_row.tolist()
    for siblings in children.values():
        siblings.sort(key=first_row.__getitem__, reverse=True)
    stack = children.get(NO_NODE, [])
    while stack:
        node = stack.pop()
        yield node
        stack += children.get(node, [])


def _make_rows(
    recording: Recording,
    merged: MergedStacks,
    columns: Mapping[str, Numbers],
    order: Iterable[int],
    place: Numbers,
) -> Iterator[ModuleRow]:
    described = _described_modules(recording.metadata)
    values = {name: column.tolist() for name, column in columns.items()}
    names = merged.name.tolist()
    depths: list[int] = []
    roots: list[str] = []
    for node in order:
        parent = int(place[merged.parent[node]])
        class_name = recording.name(names[node]).removeprefix(_NAME_PREFIX)
        path = recording.overload_name(names[node])
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
        roots.append(class_name if not path or parent < 0 else roots[parent])
        known = described.get((roots[-1], path, class_name), {})
        yield ModuleRow(
            class_name=class_name,
            path=path,
            parent=parent,
            depth=depths[-1],
            **{name: column[node] for name, column in values.items()},
            parameter_count=_whole(known.get("parameter_count")),
            parameter_bytes=_whole(known.get("parameter_bytes")),
        )


def _described_modules(metadata: Mapping[str, Any]) -> dict[tuple[Any, Any, Any], Mapping[str, Any]]:
    """What the recorder left of the modules, by the class of their root, path and class."""
    described: dict[tuple[Any, Any, Any], Mapping[str, Any]] = {}
    for key, modules in metadata.items():
        if not key.startswith(_METADATA_PREFIX) or not isinstance(modules, list):
            continue
        for module in modules:
            if isinstance(module, dict):
                place = (module.get("root"), module.get("path"), module.get("class"))
                if all(isinstance(part, str) for part in place):
                    described[place] = module
    return described


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
