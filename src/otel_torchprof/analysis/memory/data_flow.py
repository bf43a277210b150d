"""Data flow: what each operator read, changed, made and freed, in order of time.

A block has versions: 0 when it is allocated, one more each time an operator writes into it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.memory.blocks import Blocks
from otel_torchprof.analysis.memory.operators import NONE, Operators
from otel_torchprof.recording import Recording

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class Node:
    """One operator, or an allocation that none made (`operator` is `NONE`). Lists hold rows of blocks."""

    time_ns: int
    operator: int
    event: int  # an event within it; `NONE` for allocations outside any event
    inputs: list[int] = field(default_factory=list)
    written: list[int] = field(default_factory=list)  # inputs that it changed
    made: list[int] = field(default_factory=list)


def data_flow(recording: Recording, blocks: Blocks, operators: Operators) -> Iterator[Node]:
    """The operators that touched memory, by start."""
    nodes: dict[int, Node] = {}
    bare: list[Node] = []
    start_ns = recording.events.start_ns
    operator_of = operators.operator

    def node_of(row: int) -> Node:
        node = nodes.get(row)
        if node is None:
            node = nodes[row] = Node(int(start_ns[row]), row, row)
        return node

    maker = np.full(len(blocks), NONE, dtype=np.int64)
    in_event = np.flatnonzero(blocks.event >= 0)
    maker[in_event] = operator_of[blocks.event[in_event]]
    made = np.flatnonzero(~blocks.is_from_before)
    for block, operator in zip(made.tolist(), maker[made].tolist(), strict=True):
        if operator == NONE:
            bare.append(Node(int(blocks.start_ns[block]), NONE, int(blocks.event[block]), made=[block]))
        else:
            node_of(operator).made.append(block)
    reads, writes = _edges(recording, blocks, operator_of, maker)
    for operator, block in reads:
        node_of(operator).inputs.append(block)
    for operator, block in writes:
        node_of(operator).written.append(block)
    yield from sorted([*nodes.values(), *bare], key=lambda node: node.time_ns)


def _edges(
    recording: Recording, blocks: Blocks, operator_of: Numbers, maker: Numbers
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs of operator and block: what was read, and what was written, of what others made."""
    tensors = recording.tensors
    used = np.flatnonzero(blocks.of_tensor >= 0)
    operator = operator_of[tensors["event"][used]]
    used, operator = used[operator >= 0], operator[operator >= 0]
    block = blocks.of_tensor[used]
    version = tensors["version"][used]
    time_ns = recording.events.start_ns[tensors["event"][used]]
    order = np.lexsort((np.arange(len(used)), time_ns, block))
    operator, block, version, used = operator[order], block[order], version[order], used[order]
    is_last = np.ones(len(block), dtype=bool)
    is_last[:-1] = block[1:] != block[:-1]
    # Who used it last before its version rose wrote into it. Of the last use, and of tensors without
    # versions, only the name can tell.
    rises = np.zeros(len(block), dtype=bool)
    rises[:-1] = ~is_last[:-1] & (version[1:] > version[:-1]) & (version[:-1] >= 0)
    by_name = _writes_by_name(recording)[tensors["event"][used]] & (tensors["argument"][used] == 0)
    wrote = rises | (by_name & (is_last | (version < 0)))
    of_others = maker[block] != operator
    return _pairs(operator[of_others], block[of_others]), _pairs(
        operator[wrote & of_others], block[wrote & of_others]
    )


def _writes_by_name(recording: Recording) -> npt.NDArray[np.bool_]:
    """By event: whether it is an op that changes its first argument, as `aten::add_`."""
    names = [recording.name(name_id) for name_id in range(recording.name_count)]
    in_place = np.array([name.endswith("_") and not name.endswith("__") for name in names], dtype=bool)
    return in_place[recording.events.name]


def _pairs(operator: Numbers, block: Numbers) -> list[tuple[int, int]]:
    pairs = np.unique(np.column_stack([operator, block]), axis=0) if len(operator) else np.empty((0, 2), int)
    return [(int(row), int(column)) for row, column in pairs.tolist()]
