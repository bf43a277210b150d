"""Blocks: pieces of memory from their allocation to their free.

What was allocated before the recording shows itself when a tensor in it is used or noted, or when it is
freed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.memory.places import Numbers, Places, dense_ids
from otel_torchprof.recording import MemoryFlags, Recording

NEVER = np.iinfo(np.int64).max
_NO_EVENT = -1
Columns = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """A device as allocators number them."""

    device_type: int  # c10::DeviceType
    index: int  # -1 = the only one of its type

    @property
    def name(self) -> str:
        """As torch writes it: `cpu`, `cuda:0`."""
        names = {
            0: "cpu",
            1: "cuda",
            6: "hip",
            9: "xla",
            12: "xpu",
            13: "mps",
            14: "meta",
            15: "hpu",
            19: "mtia",
        }
        name = names.get(self.device_type, f"device type {self.device_type}")
        return name if self.index < 0 else f"{name}:{self.index}"


@dataclass(frozen=True, eq=False)
class Blocks:
    """One row a block, in no particular order."""

    devices: list[Device]
    device: Numbers  # index into `devices`
    address: npt.NDArray[np.uint64]
    size_bytes: Numbers
    start_ns: Numbers
    end_ns: Numbers  # `NEVER` for what outlives the recording
    event: Numbers  # row of the event that it was allocated in, -1 = none
    free_event: Numbers
    is_from_before: npt.NDArray[np.bool_]  # allocated before the recording
    of_tensor: Numbers  # by row of `Recording.tensors`: its block, -1 = none
    of_role: Numbers  # by row of `Recording.tensor_roles`

    def __len__(self) -> int:
        return len(self.size_bytes)


@dataclass(frozen=True, eq=False)
class _Uses:
    """Tensors that were seen at a place and a time: inputs of events, then notes of roles."""

    place: Numbers
    device: Numbers
    address: npt.NDArray[np.uint64]
    size_bytes: Numbers
    time_ns: Numbers
    is_role: npt.NDArray[np.bool_]
    is_last_note: npt.NDArray[np.bool_]


def find_blocks(recording: Recording) -> Blocks:
    """All blocks of a recording."""
    memory, tensors, roles = recording.memory, recording.tensors, recording.tensor_roles
    memory = memory[(memory["address"] != 0) & (memory["flags"] & MemoryFlags.OUT_OF_MEMORY == 0)]
    tables = (memory, tensors, roles)
    device_keys = np.concatenate([_device_keys(table) for table in tables])
    distinct, device = np.unique(device_keys, return_inverse=True)
    device = device.reshape(-1).astype(np.int64)
    address = np.concatenate([table["address"] for table in tables])
    place = dense_ids(device, address)
    count = len(memory)
    roles_time_ns = roles["time_ns"].astype(np.int64)
    uses = _Uses(
        place[count:],
        device[count:],
        address[count:],
        np.concatenate([tensors["storage_bytes"], roles["size_bytes"]]).astype(np.int64),
        np.concatenate([recording.events.start_ns[tensors["event"]], roles_time_ns]),
        np.arange(len(tensors) + len(roles)) >= len(tensors),
        np.concatenate([np.zeros(len(tensors), bool), roles_time_ns == roles_time_ns.max(initial=0)]),
    )
    seen, frees = _allocated(memory, place[:count], device[:count], recording.start_ns)
    block, before = Places(seen["place"], seen["start_ns"], seen["end_ns"]).find(uses.place, uses.time_ns)
    block[uses.address == 0] = -1
    earlier, block = _from_before(uses, block, before, seen, frees, recording.start_ns)
    columns = {name: np.concatenate([seen[name], earlier[name]]) for name in seen}
    if len(tensors):
        kept = ~_idle(columns["is_from_before"], block, uses.is_role, roles["owner"])
        number = np.where(kept, np.cumsum(kept) - 1, -1)
        block = np.where(block < 0, -1, number[block]) if len(number) else block
        columns = {name: column[kept] for name, column in columns.items()}
    return Blocks(
        devices=[Device(int(key) >> 16, (int(key) & 0xFFFF) - 1) for key in distinct],
        device=columns["device"],
        address=columns["address"],
        size_bytes=columns["size_bytes"],
        start_ns=columns["start_ns"],
        end_ns=columns["end_ns"],
        event=columns["event"],
        free_event=columns["free_event"],
        is_from_before=columns["is_from_before"].astype(bool),
        of_tensor=block[: len(tensors)],
        of_role=block[len(tensors) :],
    )


def _device_keys(table: npt.NDArray[np.void]) -> Numbers:
    index = np.clip(table["device"].astype(np.int64) + 1, 0, 0xFFFF)
    # There is one CPU, whether somebody gave it the number 0 or none.
    index = np.where(table["device_type"] == 0, 0, index)
    return (table["device_type"].astype(np.int64) << 16) | index


def _allocated(
    memory: npt.NDArray[np.void], place: Numbers, device: Numbers, start_ns: int
) -> tuple[Columns, tuple[Numbers, Numbers]]:
    """Blocks that a record tells of; and of frees of which nothing is known, their places and times."""
    order = np.lexsort((np.arange(len(memory)), memory["time_ns"], place))
    rows, place, device = memory[order], place[order], device[order]
    is_free = (rows["flags"] & MemoryFlags.FREE != 0) | (rows["size_bytes"] < 0)
    same_place = np.zeros(len(rows), dtype=bool)
    same_place[1:] = place[1:] == place[:-1]
    follows_allocation = same_place.copy()
    follows_allocation[1:] &= ~is_free[:-1]
    time_ns = rows["time_ns"].astype(np.int64)

    # The next record at the place ends a block, also another allocation: its free was not seen.
    has_next = np.append(same_place[1:], False) if len(rows) else same_place
    next_time_ns = np.append(time_ns[1:], NEVER)[: len(rows)]
    next_is_free = np.append(is_free[1:], False)[: len(rows)]
    next_event = np.append(rows["event"][1:], _NO_EVENT)[: len(rows)]
    allocations = np.flatnonzero(~is_free & (rows["size_bytes"] > 0))
    freed = has_next & next_is_free
    # Frees of known size without an allocation are blocks from before.
    orphans = np.flatnonzero(is_free & ~follows_allocation & (rows["size_bytes"] < 0) & ~same_place)
    unknown = is_free & ~follows_allocation & (rows["size_bytes"] == 0)
    chosen = np.concatenate([allocations, orphans])
    is_orphan = np.arange(len(chosen)) >= len(allocations)
    blocks: Columns = {
        "place": place[chosen],
        "device": device[chosen],
        "address": rows["address"][chosen],
        "size_bytes": np.abs(rows["size_bytes"][chosen]),
        "start_ns": np.where(is_orphan, np.minimum(start_ns, time_ns[chosen]), time_ns[chosen]),
        "end_ns": np.where(
            is_orphan, time_ns[chosen], np.where(has_next[chosen], next_time_ns[chosen], NEVER)
        ),
        "event": np.where(is_orphan, _NO_EVENT, rows["event"][chosen]),
        "free_event": np.where(
            is_orphan, rows["event"][chosen], np.where(freed[chosen], next_event[chosen], _NO_EVENT)
        ),
        "is_from_before": is_orphan,
    }
    return blocks, (place[unknown], time_ns[unknown])


def _from_before(
    uses: _Uses,
    block: Numbers,
    before: Numbers,
    seen: Columns,
    frees: tuple[Numbers, Numbers],
    start_ns: int,
) -> tuple[Columns, Numbers]:
    """Blocks that only their uses tell of, and `block` with them filled in.

    With a role they live from the start of the recording, else from their first use; to their last use, or
    as long as the recording where the last notes still find them.
    """
    unknown = np.flatnonzero((block < 0) & (uses.address != 0) & (uses.size_bytes > 0))
    # At one place, what is seen before the first allocation there is another block than what is seen later.
    found = dense_ids(uses.place[unknown], before[unknown])
    count = int(found.max(initial=-1)) + 1
    block = block.copy()
    block[unknown] = found + len(seen["place"])

    example = np.zeros(count, dtype=np.int64)
    example[found] = unknown
    first_ns, last_ns = np.full(count, NEVER), np.full(count, np.iinfo(np.int64).min)
    size_bytes = np.zeros(count, dtype=np.int64)
    has_role, is_noted_last = np.zeros(count, dtype=bool), np.zeros(count, dtype=bool)
    np.minimum.at(first_ns, found, uses.time_ns[unknown])
    np.maximum.at(last_ns, found, uses.time_ns[unknown])
    np.maximum.at(size_bytes, found, uses.size_bytes[unknown])
    np.logical_or.at(has_role, found, uses.is_role[unknown])
    np.logical_or.at(is_noted_last, found, uses.is_last_note[unknown])
    place = uses.place[example]
    end_ns = np.where(is_noted_last, NEVER, last_ns)
    end_ns = _until_freed(place, last_ns, end_ns, *frees)
    columns: Columns = {
        "place": place,
        "device": uses.device[example],
        "address": uses.address[example],
        "size_bytes": size_bytes,
        "start_ns": np.where(has_role, np.minimum(first_ns, start_ns), first_ns),
        "end_ns": end_ns,
        "event": np.full(count, _NO_EVENT),
        "free_event": np.full(count, _NO_EVENT),
        "is_from_before": np.ones(count, dtype=bool),
    }
    return columns, block


def _idle(
    is_from_before: npt.NDArray[np.bool_],
    block: Numbers,
    is_role: npt.NDArray[np.bool_],
    owner: npt.NDArray[np.uint16],
) -> npt.NDArray[np.bool_]:
    """Blocks of models that the recording has nothing to do with: no operator touched their tensors."""
    is_touched = ~is_from_before
    is_touched[block[~is_role & (block >= 0)]] = True
    noted = block[is_role]
    known, owner = noted[noted >= 0], owner[noted >= 0]
    is_active = np.zeros(int(owner.max(initial=0)) + 1, dtype=bool)
    np.logical_or.at(is_active, owner, is_touched[known])
    is_held = np.zeros(len(is_touched), dtype=bool)
    np.logical_or.at(is_held, known, is_active[owner])
    return ~is_touched & ~is_held


def _until_freed(
    place: Numbers, last_ns: Numbers, end_ns: Numbers, free_place: Numbers, free_time_ns: Numbers
) -> Numbers:
    """Ends as they are, or where a free is recorded: the first at the place after the last use."""
    if not len(free_place):
        return end_ns
    end_ns = end_ns.copy()
    times = dict[int, list[int]]()
    for where, time_ns in zip(free_place.tolist(), free_time_ns.tolist(), strict=True):
        times.setdefault(where, []).append(time_ns)
    for row, (where, last) in enumerate(zip(place.tolist(), last_ns.tolist(), strict=True)):
        after = [time_ns for time_ns in times.get(where, ()) if time_ns >= last]
        if after:
            end_ns[row] = min(after)
    return end_ns
