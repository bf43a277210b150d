"""The history of one device: its trace as memory records, stacks and marks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.cuda_rows import USER_SCOPE
from otel_torchprof.importers.cuda_snapshot.annotations import add_annotations
from otel_torchprof.importers.cuda_snapshot.frames import FrameSlices
from otel_torchprof.importers.cuda_snapshot.memory_rows import MemoryRows
from otel_torchprof.importers.cuda_snapshot.schema import (
    NO_TIME,
    Block,
    DeviceSnapshot,
    Entry,
    action_of,
    address_of,
    label_of,
    size_of,
    time_of,
)
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import EventFlags, EventKind, RecordingBuilder, TrackKind

_GROWS = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
_FREES = {"free_completed", "free"}
_SILENT = {"free_requested", "snapshot"}


class DeviceHistory:
    """Adds one device to a recording.

    Args:
        builder: gets tracks and names.
        draft: gets events.
        device: what to add.
        report: gets what is wrong with it.
    """

    def __init__(
        self, builder: RecordingBuilder, draft: EventDraft, device: DeviceSnapshot, report: ImportReport
    ) -> None:
        self._builder = builder
        self._draft = draft
        self._device = device
        self._report = report
        self._track = builder.add_track(
            f"cuda:{device.number} allocations", TrackKind.OTHER, device=device.number
        )
        self._frames = FrameSlices(builder, self._track)
        self._times_ns = _rising_times(device.trace, report)
        # A trace without any word of completed frees has only the requests to go by.
        has_completed = any(action_of(entry) in _FREES for entry in device.trace)
        self._frees = _FREES if has_completed else {"free_requested"}
        grown = sum(_GROWS.get(action_of(entry), 0) * size_of(entry, "size") for entry in device.trace)
        self._rows = MemoryRows(self._track, device.number, max(device.reserved_bytes() - grown, 0))

    def records(self) -> npt.NDArray[np.void]:
        """Adds the device's events and returns its memory records."""
        annotation_times = [time for entry in self._device.annotations if (time := time_of(entry)) >= 0]
        start_ns = self._times_ns[0] if self._times_ns else min(annotation_times, default=0)
        self._add_blocks_from_before(start_ns)
        self._add_trace()
        end_ns = self._times_ns[-1] if self._times_ns else max(annotation_times, default=start_ns)
        add_annotations(
            self._builder, self._draft, self._device.number, self._device.annotations, end_ns, self._report
        )
        return self._rows.table(self._frames.add_to(self._draft))

    def _add_blocks_from_before(self, start_ns: int) -> None:
        """Allocates, right before the trace and 1 ns apart, what it frees or leaves without allocating it."""
        blocks = self._blocks_from_before()
        for time_ns, block in enumerate(blocks, start_ns - len(blocks)):
            event = self._frames.sample(block.stack, time_ns)
            self._rows.allocate(time_ns, event, block.address, block.size_bytes)
        self._frames.finish(start_ns)

    def _blocks_from_before(self) -> list[Block]:
        live: set[int] = set()
        freed: list[Block] = []
        for entry in self._device.trace:
            action, address = action_of(entry), address_of(entry, "addr")
            if action == "alloc":
                live.add(address)
            elif action in self._frees:
                if address not in live:
                    freed.append(Block(address, size_of(entry, "size"), None))
                live.discard(address)
        return freed + [block for block in self._device.blocks if block.address not in live]

    def _add_trace(self) -> None:
        for entry, time_ns in zip(self._device.trace, self._times_ns, strict=True):
            action = action_of(entry)
            event = self._frames.sample(entry.get("frames"), time_ns)
            address, size_bytes = address_of(entry, "addr"), size_of(entry, "size")
            self._report.add_problem("no_address", action in {"alloc", *self._frees} and not address)
            if action == "alloc":
                self._rows.allocate(time_ns, event, address, size_bytes)
            elif action in self._frees:
                self._rows.free(time_ns, event, address, size_bytes)
            elif action in _GROWS:
                self._rows.reserve(_GROWS[action] * size_bytes)
                self._mark(action, time_ns)
            elif action == "oom":
                self._rows.fail(time_ns, event, size_bytes)
                self._mark("out of memory", time_ns)
            elif action not in _SILENT:
                self._mark(label_of(entry) or action, time_ns, EventKind.USER)
                self._report.add_problem("unknown_action", action != "user_defined")
        self._frames.finish(self._times_ns[-1] + 1 if self._times_ns else 0)

    def _mark(self, name: str, time_ns: int, kind: EventKind = EventKind.OTHER) -> None:
        name_id = self._builder.add_name(name)
        scope = USER_SCOPE if kind == EventKind.USER else 0
        self._draft.add(time_ns, time_ns, name_id, self._track, kind, scope, flags=EventFlags.INSTANT)


def _rising_times(trace: list[Entry], report: ImportReport) -> list[int]:
    """Times of entries in ns; those of one microsecond keep their order, 1 ns apart."""
    times_ns = np.array([time_of(entry) for entry in trace], dtype=np.int64)
    given = times_ns != NO_TIME
    report.add_problem("no_time", int((~given).sum()))
    report.add_problem("time_runs_backwards", int((np.diff(times_ns[given]) < 0).sum()))
    places = np.arange(len(times_ns))
    # Each is later than the one before by 1 ns at least; what has no time follows the one before.
    behind = np.where(given, times_ns, np.iinfo(np.int64).min // 2) - places
    if len(behind):
        behind[0] = max(behind[0], times_ns[given].min() if given.any() else 0)
    rising: list[int] = (np.maximum.accumulate(behind) + places).tolist()
    return rising
