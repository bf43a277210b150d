"""The estimated occupancy of kernels: how many of the threads that a multiprocessor has room for they keep.

By the rules of NVIDIA's occupancy calculator (`cuda_occupancy.h`), and rounded as Kineto does. A grid that
does not fill the device is held against all of it: `blocks` is what fits into a multiprocessor, or what the
grid has for each where that is less, and the occupancy is `blocks` * threads of a block / threads that fit.

One thing is not as Kineto has it: a kernel with more shared memory than `sharedMemPerBlock`, which it must
have asked for, gets 0 there, as Kineto does not tell the calculator that it did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.device_properties import device_properties
from otel_torchprof.recording import EventKind, Recording

Numbers = npt.NDArray[np.int64]

_WARP_SIZE = 32  # others are not NVIDIA's, and have other rules
_FIRST_MAJOR = 7
# By compute capability; others of a generation have what its first one has.
_MAX_BLOCKS = {(7, 5): 16, (8, 6): 16, (8, 7): 16, (8, 9): 24, (12, 0): 24, (12, 1): 24}
_MAX_BLOCKS_OF_OTHERS = 32
_REGISTERS_AT_ONCE = 256  # of a warp
_PARTITIONS = 4  # of a multiprocessor: no warp has registers of two
_SHARED_BYTES_AT_ONCE = {7: 256}
_SHARED_BYTES_AT_ONCE_SINCE_8 = 128
_SYSTEM_SHARED_BYTES_SINCE_8 = 1024  # that a block has for the system


@dataclass(frozen=True)
class _Multiprocessor:
    """What a multiprocessor has room for."""

    count: int
    major: int
    blocks: int
    threads: int
    registers: int
    registers_of_block: int
    shared_bytes: int


def kernel_occupancy(recording: Recording) -> npt.NDArray[np.float32]:
    """By row of `recording.devices`, percent without decimals: as recorded, else estimated, else NaN."""
    records = recording.devices
    percent: npt.NDArray[np.float32] = records["occupancy_percent"].copy()
    is_kernel = recording.events.kind[records["event"].astype(np.int64)] == EventKind.KERNEL
    wanted = is_kernel & np.isnan(percent) & (records["grid"].min(axis=1, initial=1) > 0)
    wanted &= (records["block"].min(axis=1, initial=1) > 0) & (records["registers"] >= 0)
    if not wanted.any():
        return percent
    for properties in device_properties(recording):
        room = _multiprocessor(properties)
        rows = np.flatnonzero(wanted & (records["device"] == properties.get("id")))
        if room is not None and len(rows):
            percent[rows] = _percent(records[rows], room)
    return percent


def _percent(records: npt.NDArray[np.void], room: _Multiprocessor) -> npt.NDArray[np.float32]:
    # Sizes are as far as 2**32 in three directions each: in floating point they cannot overflow.
    threads = records["block"].astype(np.float64).prod(axis=1)
    grid = records["grid"].astype(np.float64).prod(axis=1)
    threads_of_block = np.minimum(threads, np.iinfo(np.int32).max).astype(np.int64)
    fit = _blocks_that_fit(
        threads_of_block,
        records["registers"].astype(np.int64),
        np.maximum(records["shared_bytes"], 0).astype(np.int64),
        room,
    )
    # In single precision, as it decides which way Kineto rounds.
    blocks = np.minimum(fit.astype(np.float32), (grid / room.count).astype(np.float32))
    occupancy = blocks * threads.astype(np.float32) / np.float32(room.threads)
    percent: npt.NDArray[np.float32] = np.floor(occupancy.astype(np.float64) * 100.0 + 0.5).astype(np.float32)
    # What does not fit cannot have run: something is wrong with what was recorded.
    percent[fit == 0] = np.nan
    return percent


def _blocks_that_fit(
    threads: Numbers, registers: Numbers, shared_bytes: Numbers, room: _Multiprocessor
) -> Numbers:
    """The blocks of a kernel that a multiprocessor has room for at once."""
    warps = _ceil(threads, _WARP_SIZE)
    fit = np.minimum(room.blocks, room.threads // _WARP_SIZE // warps)

    registers_of_warp = _ceil(np.maximum(registers, 1) * _WARP_SIZE, _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    warps_that_fit = room.registers // _PARTITIONS // registers_of_warp * _PARTITIONS
    fit = np.where(registers > 0, np.minimum(fit, warps_that_fit // warps), fit)
    fit = np.where(registers_of_warp * warps > room.registers_of_block, 0, fit)

    if room.major >= 8:
        shared_bytes = shared_bytes + _SYSTEM_SHARED_BYTES_SINCE_8
    unit = _SHARED_BYTES_AT_ONCE.get(room.major, _SHARED_BYTES_AT_ONCE_SINCE_8)
    taken = np.maximum(_ceil(shared_bytes, unit) * unit, 1)
    fitting: Numbers = np.where(shared_bytes > 0, np.minimum(fit, room.shared_bytes // taken), fit)
    return fitting


def _multiprocessor(properties: Mapping[str, Any]) -> _Multiprocessor | None:
    """None where the device is not NVIDIA's, too old, or does not say enough."""

    def number(*names: str) -> int:
        for name in names:
            value = properties.get(name)
            if isinstance(value, int) and 0 < value < 1 << 31:
                return value
        return 0

    major, minor = number("computeMajor"), number("computeMinor")
    room = _Multiprocessor(
        count=number("numSms"),
        major=major,
        blocks=number("maxBlocksPerMultiprocessor") or _MAX_BLOCKS.get((major, minor), _MAX_BLOCKS_OF_OTHERS),
        threads=number("maxThreadsPerMultiprocessor", "maxThreadsPerMultiProcessor"),
        registers=number("regsPerMultiprocessor"),
        registers_of_block=number("regsPerBlock"),
        shared_bytes=number("sharedMemPerMultiprocessor", "maxSharedMemoryPerMultiProcessor"),
    )
    is_known = all((room.count, room.threads, room.registers, room.registers_of_block, room.shared_bytes))
    is_nvidias = properties.get("warpSize") == _WARP_SIZE and major >= _FIRST_MAJOR
    return room if is_known and is_nvidias else None


def _ceil(numbers: Numbers, unit: int) -> Numbers:
    return -(-numbers // unit)
