"""How much memory of each category was in use, over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.memory.blocks import NEVER, Blocks
from otel_torchprof.analysis.memory.categorize import Categories
from otel_torchprof.analysis.memory.category import Category
from otel_torchprof.analysis.memory.places import Numbers

_CATEGORIES = len(Category)


@dataclass(frozen=True, eq=False)
class MemoryEvents:
    """What changed on one device, in order of time; one row a change of one block."""

    time_ns: Numbers
    block: Numbers
    action: Numbers  # an `Action`
    category: Numbers  # of what begins or ends
    delta_bytes: Numbers

    def totals(self) -> Numbers:
        """Bytes in use after each row, a column a category."""
        changes = np.zeros((len(self.time_ns), _CATEGORIES), dtype=np.int64)
        changes[np.arange(len(changes)), self.category] = self.delta_bytes
        return np.cumsum(changes, axis=0)


class Action:
    """What happened to a block, with the numbers of torch's raw timeline."""

    PREEXISTING = 1
    CREATE = 2
    INCREMENT_VERSION = 3
    DESTROY = 4


def memory_events(blocks: Blocks, categories: Categories, device: int) -> MemoryEvents:
    """The history of a device. A new version of a block is two rows: the old one ends, the new one begins."""
    own = np.flatnonzero(blocks.device == device)
    ends = own[blocks.end_ns[own] != NEVER]
    changed = np.flatnonzero(blocks.device[categories.change_block] == device)
    change_block = categories.change_block[changed]
    change_time_ns = np.clip(
        categories.change_time_ns[changed], blocks.start_ns[change_block], blocks.end_ns[change_block]
    )
    last = categories.first.copy()
    last[categories.change_block] = categories.change_to
    sizes = blocks.size_bytes
    begin = np.where(blocks.is_from_before[own], Action.PREEXISTING, Action.CREATE)
    version = np.full(len(changed), Action.INCREMENT_VERSION)
    parts = [
        (blocks.start_ns[own], own, begin, categories.first[own], sizes[own]),
        (change_time_ns, change_block, version, categories.change_from[changed], -sizes[change_block]),
        (change_time_ns, change_block, version, categories.change_to[changed], sizes[change_block]),
        (blocks.end_ns[ends], ends, np.full(len(ends), Action.DESTROY), last[ends], -sizes[ends]),
    ]
    columns = [np.concatenate([part[column] for part in parts]) for column in range(5)]
    # The halves of a new version stay side by side, the end of the old one first.
    half = np.concatenate([np.full(len(part[0]), place == 2) for place, part in enumerate(parts)])
    change = np.concatenate(
        [np.zeros(len(own), np.int64), changed + 1, changed + 1, np.zeros(len(ends), np.int64)]
    )
    # A free makes room before what is allocated at the same nanosecond.
    frees_first = columns[2] != Action.DESTROY
    order = np.lexsort((half, change, frees_first, columns[0]))
    return MemoryEvents(*(column[order] for column in columns))


@dataclass(frozen=True, eq=False)
class Timeline:
    """Totals at moments: columns by moment, a row of bytes by category for each."""

    time_ns: Numbers
    bytes_by_category: npt.NDArray[np.int64]

    @property
    def total_bytes(self) -> Numbers:
        """Of all categories."""
        total: Numbers = self.bytes_by_category.sum(axis=1)
        return total


def timeline(events: MemoryEvents) -> Timeline:
    """The state after each moment at which something changed."""
    if not len(events.time_ns):
        return Timeline(events.time_ns, np.empty((0, _CATEGORIES), dtype=np.int64))
    is_last = np.append(events.time_ns[1:] != events.time_ns[:-1], True)
    return Timeline(events.time_ns[is_last], events.totals()[is_last])


def condense(line: Timeline, moments: int, start_ns: int, end_ns: int) -> Timeline:
    """At most so many moments, evenly spread; each shows the highest total around it: no peak is lost."""
    if len(line.time_ns) <= moments:
        return line
    width = max(end_ns - start_ns, 1)
    share = (np.clip(line.time_ns, start_ns, end_ns) - start_ns) / width
    bucket = np.minimum((share * moments).astype(np.int64), moments - 1)
    order = np.lexsort((-line.total_bytes, bucket))
    first = np.ones(len(order), dtype=bool)
    first[1:] = bucket[order][1:] != bucket[order][:-1]
    kept = np.sort(order[first])
    return Timeline(line.time_ns[kept], line.bytes_by_category[kept])
