"""The moment at which most memory was in use, and what it was used for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from otel_torchprof.analysis.memory.blocks import Blocks
from otel_torchprof.analysis.memory.category import Category
from otel_torchprof.analysis.memory.places import Numbers
from otel_torchprof.analysis.memory.sites import Sites
from otel_torchprof.analysis.memory.timeline import MemoryEvents

MAX_BLOCKS = 20


@dataclass(frozen=True, slots=True)
class LiveBlock:
    """A block that was in use at the peak."""

    size_bytes: int
    address: int
    category: Category
    name: str  # of a parameter, its gradient or its optimizer state; else empty
    operator: str
    module: str
    stack: tuple[str, ...]  # innermost first
    allocated_ns: int


@dataclass(frozen=True, slots=True)
class Share:
    """Memory at the peak with something in common."""

    name: str
    size_bytes: int
    blocks: int


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes in use at the peak, from the largest share down."""

    time_ns: int
    total_bytes: int
    by_category: dict[Category, int]
    by_operator: list[Share]
    by_module: list[Share]  # empty where no module was recorded
    by_stack: list[Share]  # likewise; frames innermost first, a line each
    largest: list[LiveBlock]


def find_peak(events: MemoryEvents, blocks: Blocks, sites: Sites, names: Sequence[str]) -> Peak:
    """The peak of a device; its first moment where there are several.

    Args:
        names: by block, what the program calls it.
    """
    totals = events.totals()
    if not len(totals):
        return Peak(0, 0, {}, [], [], [], [])
    whole = totals.sum(axis=1)
    # Within one nanosecond, and between the halves of a new version, totals mean nothing.
    is_last = np.append(events.time_ns[1:] != events.time_ns[:-1], True)
    row = int(np.flatnonzero(is_last)[np.argmax(whole[is_last])])
    live, category = _live_after(events, row)
    order = np.argsort(-blocks.size_bytes[live], kind="stable")
    live, category = live[order], category[order]
    event = blocks.event[live]

    def shares(label: Callable[[int], str]) -> list[Share]:
        labels = {site: label(site) for site in np.unique(event).tolist()}
        sums: dict[str, tuple[int, int]] = {}
        for block, site in zip(live.tolist(), event.tolist(), strict=True):
            size, count = sums.get(labels[site], (0, 0))
            sums[labels[site]] = size + int(blocks.size_bytes[block]), count + 1
        found = [Share(name, size, count) for name, (size, count) in sums.items()]
        return sorted(found, key=lambda share: (-share.size_bytes, share.name))

    by_module, by_stack = shares(sites.module), shares(lambda row: "\n".join(sites.stack(row)))
    return Peak(
        time_ns=int(events.time_ns[row]),
        total_bytes=int(whole[row]),
        by_category={kind: int(totals[row, kind]) for kind in Category},
        by_operator=shares(sites.operator),
        by_module=by_module if any(share.name for share in by_module) else [],
        by_stack=by_stack if any(share.name for share in by_stack) else [],
        largest=[
            LiveBlock(
                size_bytes=int(blocks.size_bytes[block]),
                address=int(blocks.address[block]),
                category=Category(kind),
                name=names[block],
                operator=sites.operator(int(blocks.event[block])),
                module=sites.module(int(blocks.event[block])),
                stack=sites.stack(int(blocks.event[block])),
                allocated_ns=int(blocks.start_ns[block]),
            )
            for block, kind in zip(live[:MAX_BLOCKS].tolist(), category[:MAX_BLOCKS].tolist(), strict=True)
        ],
    )


def _live_after(events: MemoryEvents, row: int) -> tuple[Numbers, Numbers]:
    """Blocks in use after a row, and the category of each then."""
    block, delta, category = (
        column[: row + 1] for column in (events.block, events.delta_bytes, events.category)
    )
    # The last row of a block says whether it is there.
    distinct, last = np.unique(block[::-1], return_index=True)
    last = len(block) - 1 - last
    is_live = delta[last] > 0
    return distinct[is_live], category[last[is_live]]
