"""Complete events (phase X), most of any trace: read column by column, a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.categories import USER_SCOPE, CategoryTable
from otel_torchprof.importers.chrome.clock import TraceClock
from otel_torchprof.importers.chrome.devices import DeviceRows
from otel_torchprof.importers.chrome.inputs import encode_inputs
from otel_torchprof.importers.chrome.names import NameTable
from otel_torchprof.importers.chrome.schema import NO_RAW, Arguments, Event
from otel_torchprof.importers.chrome.times import MAX_TIME_NS, NO_TIME, times_column
from otel_torchprof.importers.chrome.tracks import TrackTable
from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.numbers import int_column, to_int
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import EventKind, RecordingBuilder

Column = npt.NDArray[np.int64]

_NO_ARGUMENTS = Arguments()
_INT32 = (1 << 31) - 1


class CompleteEvents:
    """Adds complete events to a draft, and what their arguments say to the device rows.

    Every event of a batch must have a name, category, process and thread that can be hashed.
    """

    def __init__(
        self,
        draft: EventDraft,
        builder: RecordingBuilder,
        tracks: TrackTable,
        names: NameTable,
        categories: CategoryTable,
        clock: TraceClock,
        report: ImportReport,
    ) -> None:
        self._draft = draft
        self._builder = builder
        self._tracks = tracks
        self._names = names
        self._categories = categories
        self._clock = clock
        self._report = report
        self._payloads: dict[tuple[bytes, bytes, bytes, bytes], int] = {}
        self.devices = DeviceRows()
        self.steps: list[tuple[int, int]] = []
        """Row and number of each step."""
        self._op_rows: list[Column] = []
        self._op_external_ids: list[Column] = []

    def add(self, events: Sequence[Event]) -> tuple[int, Sequence[Event]]:
        """Adds a batch; returns the row of its first event and those of its events that have a time."""
        start_ns = self._clock.column([event.ts for event in events])
        if (start_ns == NO_TIME).any():
            events = [event for event, time in zip(events, start_ns.tolist(), strict=True) if time != NO_TIME]
            start_ns = start_ns[start_ns != NO_TIME]
        if not events:
            return len(self._draft), events
        categories = self._categories
        numbers = np.array([categories[event.cat] for event in events])
        on_device = np.array(categories.on_device)[numbers]
        kinds = np.array(categories.kinds)[numbers]
        names = np.array([self._names[event.name] for event in events])
        self._names.refine_kinds(kinds, names)
        numbered = self._tracks.numbered
        tracks = [
            numbered[event.pid, event.tid, is_on_device]
            for event, is_on_device in zip(events, on_device.tolist(), strict=True)
        ]
        arguments = [event.args or _NO_ARGUMENTS for event in events]
        for place, name_bytes in enumerate([known.name_bytes for known in arguments]):
            if name_bytes is not None:
                names[place] = self._names.exact(name_bytes, int(names[place]))
        sequence = int_column([known.sequence for known in arguments], -1)
        row = self._draft.add_block(
            {
                "start_ns": start_ns,
                "end_ns": self._ends(events, start_ns),
                "name": names,
                "track": np.array(tracks),
                "kind": kinds,
                "scope": np.where(kinds == EventKind.USER, USER_SCOPE, 0),
                "sequence": np.maximum(sequence, -1),
                "forward_thread": np.where(
                    sequence >= 0, int_column([known.forward_thread for known in arguments], 0, np.uint32), 0
                ),
                "correlation": np.maximum(int_column([known.correlation for known in arguments], -1), -1),
                "payload": self._payload_column(arguments),
            }
        )
        self._add_steps(row, kinds, names)
        self._add_device_rows(row, kinds, on_device, arguments, tracks)
        return row, events

    def ops_by_external_id(self) -> dict[int, int]:
        """Rows of ops by their external id; of several with one the first."""
        rows: dict[int, int] = {}
        for op_rows, ids in zip(reversed(self._op_rows), reversed(self._op_external_ids), strict=True):
            rows.update(zip(reversed(ids.tolist()), reversed(op_rows.tolist()), strict=True))
        return rows

    def _ends(self, events: Sequence[Event], start_ns: Column) -> Column:
        durations = times_column([event.dur for event in events])
        missing = durations == NO_TIME
        negative = (durations < 0) & ~missing
        self._report.add_problem("no_duration", int(np.count_nonzero(missing)))
        self._report.add_problem("negative_duration", int(np.count_nonzero(negative)))
        durations[missing | negative] = 0
        too_late = durations > MAX_TIME_NS - start_ns
        self._report.add_problem("time_out_of_range", int(np.count_nonzero(too_late)))
        durations[too_late] = 0
        return start_ns + durations

    def _payload_column(self, arguments: Sequence[Arguments]) -> Column:
        payloads = [
            0 if known.input_types is NO_RAW and known.input_dims is NO_RAW else self._payload(known)
            for known in arguments
        ]
        return np.array(payloads)

    def _payload(self, arguments: Arguments) -> int:
        # Most ops of a loop come again with the same inputs: they are encoded once.
        key = (
            bytes(arguments.input_dims),
            bytes(arguments.input_types),
            bytes(arguments.input_strides) if arguments.input_strides is not NO_RAW else b"",
            bytes(arguments.concrete_inputs) if arguments.concrete_inputs is not NO_RAW else b"",
        )
        payload = self._payloads.get(key)
        if payload is None:
            encoded = encode_inputs(arguments)
            payload = self._payloads[key] = self._builder.add_payload(encoded) if encoded else 0
        return payload

    def _add_steps(self, row: int, kinds: Column, names: Column) -> None:
        step_numbers = self._names.step_numbers
        if not step_numbers:
            return
        is_step = (kinds == EventKind.USER) & np.isin(names, list(step_numbers))
        for index in np.flatnonzero(is_step).tolist():
            self.steps.append((row + index, step_numbers[int(names[index])]))

    def _add_device_rows(
        self,
        row: int,
        kinds: Column,
        on_device: npt.NDArray[np.bool_],
        arguments: Sequence[Arguments],
        tracks: Sequence[int],
    ) -> None:
        is_call = (kinds == EventKind.RUNTIME) | (kinds == EventKind.DRIVER)
        self.devices.add_work(np.flatnonzero(on_device) + row, list(compress(arguments, on_device.tolist())))
        self.devices.add_calls(np.flatnonzero(is_call) + row, list(compress(arguments, is_call.tolist())))
        is_op = kinds == EventKind.OP
        external_ids = int_column([known.external_id for known in compress(arguments, is_op.tolist())], -1)
        self._op_rows.append((np.flatnonzero(is_op) + row)[external_ids > 0])
        self._op_external_ids.append(external_ids[external_ids > 0])
        on_tracks, first = np.unique(np.array(tracks)[on_device], return_index=True)
        for track, index in zip(on_tracks.tolist(), np.flatnonzero(on_device)[first].tolist(), strict=True):
            if not self._tracks.knows_device(track):
                known = arguments[index]
                device = to_int(known.device, -1, -1, _INT32)
                context = to_int(known.context, -1, -1, _INT32)
                self._tracks.set_device(track, device, context, to_int(known.stream, -1))
