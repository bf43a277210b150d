"""What a snapshot may hold, read from values that may be anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.report import ImportReport

_MAX_ADDRESS = (1 << 64) - 1
_MAX_SIZE_BYTES = 1 << 56
_MAX_DEVICE = 1 << 15
_NS_PER_MICROSECOND = 1000
_MAX_TIME_US = (1 << 61) // _NS_PER_MICROSECOND
_MAX_LABEL_CHARACTERS = 1024
NO_TIME = -1
# Shared objects make a small pickle stand for more entries than memory could hold.
_MIN_BYTES_AN_ENTRY = 2

Entry = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a segment that is in use: allocated, or freed but still awaited by a stream."""

    address: int
    size_bytes: int  # what was asked for, where the snapshot tells, else the block's
    stack: object  # innermost frame first


@dataclass(frozen=True, slots=True)
class Segment:
    """Memory that the allocator got from CUDA."""

    address: int
    total_bytes: int
    allocated_bytes: int  # in blocks that a tensor uses
    active_bytes: int  # in those and in blocks that a stream still waits for
    requested_bytes: int
    is_expandable: bool


@dataclass(slots=True)
class DeviceSnapshot:
    """One device: what it holds, and its trace, oldest entry first."""

    number: int
    segments: list[Segment] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    trace: list[Entry] = field(default_factory=list)
    annotations: list[Entry] = field(default_factory=list)

    def reserved_bytes(self) -> int:
        """What the segments hold together."""
        return sum(segment.total_bytes for segment in self.segments)

    def facts(self) -> dict[str, int]:
        """The totals of the device."""
        return {
            "segments": len(self.segments),
            "blocks_in_use": len(self.blocks),
            "reserved_bytes": self.reserved_bytes(),
            "allocated_bytes": sum(segment.allocated_bytes for segment in self.segments),
            "active_bytes": sum(segment.active_bytes for segment in self.segments),
            "requested_bytes": sum(segment.requested_bytes for segment in self.segments),
            "trace_entries": len(self.trace),
        }


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All devices that the snapshot tells of."""

    devices: list[DeviceSnapshot]
    expandable_segments: bool

    def facts(self) -> dict[str, Any]:
        """The totals of each device, for the metadata."""
        return {
            "expandable_segments": self.expandable_segments,
            "devices": {str(device.number): device.facts() for device in self.devices},
        }


def parse_snapshot(value: Any, file: InputFile, report: ImportReport) -> Snapshot:
    """Reads a snapshot; entries that are none are left out and counted.

    Raises:
        UnreadableInputError: it is something else.
    """
    # torch.cuda.memory_snapshot() returns the segments alone.
    top: Any = {"segments": value} if isinstance(value, list) else value
    if not isinstance(top, dict) or not ("segments" in top or "device_traces" in top):
        raise UnreadableInputError(f"{file.path} is a Python pickle, but no snapshot of the CUDA allocator")
    reader = _Reader(report, max_entries=file.compressed_bytes * _entries_a_byte(file))
    devices: dict[int, DeviceSnapshot] = {}
    for entry in reader.entries(top.get("segments")):
        number = to_int(entry.get("device"), 0, 0, _MAX_DEVICE)
        reader.add_segment(devices.setdefault(number, DeviceSnapshot(number)), entry)
    traces = top.get("device_traces")
    for number, trace in enumerate(traces if isinstance(traces, list) else []):
        found = list(reader.entries(trace))
        if found:
            devices.setdefault(number, DeviceSnapshot(number)).trace = found
    for entry in reader.entries(top.get("external_annotations")):
        number = to_int(entry.get("device"), 0, 0, _MAX_DEVICE)
        devices.setdefault(number, DeviceSnapshot(number)).annotations.append(entry)
    settings = top.get("allocator_settings")
    expandable = isinstance(settings, dict) and settings.get("expandable_segments") is True
    return Snapshot([devices[number] for number in sorted(devices)], expandable)


def _entries_a_byte(file: InputFile) -> int:
    return file.limits.max_compression_ratio if file.compression else 1


class _Reader:
    def __init__(self, report: ImportReport, max_entries: int) -> None:
        self._report = report
        self._entries_left = max(max_entries // _MIN_BYTES_AN_ENTRY, 1)

    def entries(self, value: object) -> Iterator[Entry]:
        """The dictionaries in a list."""
        if not isinstance(value, list):
            self._report.add_problem("entry_missing", value is not None)
            return
        for entry in value:
            if self._entries_left == 0:
                self._report.add_problem("entries_left_out")
                return
            self._entries_left -= 1
            if isinstance(entry, dict):
                yield entry
            else:
                self._report.add_problem("malformed_entry")

    def add_segment(self, device: DeviceSnapshot, entry: Entry) -> None:
        """Adds a segment and its blocks that are in use."""
        address = address_of(entry, "address")
        blocks = list(self.entries(entry.get("blocks")))
        device.segments.append(
            Segment(
                address,
                size_of(entry, "total_size"),
                size_of(entry, "allocated_size"),
                size_of(entry, "active_size"),
                size_of(entry, "requested_size"),
                entry.get("is_expandable") is True,
            )
        )
        for block in blocks:
            size_bytes = size_of(block, "size")
            state = block.get("state")
            if isinstance(state, str) and state.startswith("active"):
                found = address_of(block, "address") or address
                asked = size_of(block, "requested_size") or _first_of_history(block, "real_size")
                stack = block.get("frames") or _first_of_history(block, "frames")
                device.blocks.append(Block(found, to_int(asked, 0, 0) or size_bytes, stack))
            # Blocks lie one after the other; torch before 2.1 did not write where.
            address += size_bytes


def address_of(entry: Entry, key: str) -> int:
    """An address; 0 where there is none."""
    return to_int(entry.get(key), 0, 0, _MAX_ADDRESS)


def size_of(entry: Entry, key: str) -> int:
    """A number of bytes; 0 where there is none."""
    return to_int(entry.get(key), 0, 0, _MAX_SIZE_BYTES)


def time_of(entry: Entry) -> int:
    """When it was, unix ns; `NO_TIME` where it does not say."""
    time_us = to_int(entry.get("time_us"), NO_TIME, 0, _MAX_TIME_US)
    return NO_TIME if time_us == NO_TIME else time_us * _NS_PER_MICROSECOND


def action_of(entry: Entry) -> str:
    """What the allocator did; empty where it does not say."""
    action = entry.get("action")
    return action if isinstance(action, str) else ""


def label_of(entry: Entry) -> str:
    """What the program called it; empty where it does not say."""
    for key in ("name", "user_metadata"):
        value = entry.get(key)
        if isinstance(value, str) and value:
            return value[:_MAX_LABEL_CHARACTERS]
    return ""


def _first_of_history(block: Entry, key: str) -> Any:
    """As torch before 2.1 had it: the allocations that a block served, the last one first."""
    history = block.get("history")
    if isinstance(history, list) and history and isinstance(history[0], dict):
        return history[0].get(key)
    return None
