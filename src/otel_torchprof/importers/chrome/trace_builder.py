"""What of a trace has been read so far, on its way into a recording."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.categories import CategoryTable
from otel_torchprof.importers.chrome.clock import TraceClock
from otel_torchprof.importers.chrome.counted_events import CountedEvents
from otel_torchprof.importers.chrome.inputs import InputsTable
from otel_torchprof.importers.chrome.names import NameTable
from otel_torchprof.importers.chrome.own_steps import OwnStep
from otel_torchprof.importers.chrome.times import MAX_TIME_NS, NO_TIME
from otel_torchprof.importers.chrome.tracks import TrackTable
from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import (
    ARGUMENTS_DTYPE,
    COUNTER_DTYPE,
    DEVICE_DTYPE,
    MEMORY_DTYPE,
    EventKind,
    RecordingBuilder,
    StepFlags,
)

Column = npt.NDArray[np.int64]
Records = npt.NDArray[np.void]


class TraceBuilder:
    """Collects rows whose numbers are those of `draft`, in the order of the file.

    Args:
        report: where problems are counted.
        base_ns: what times count from.
        max_name_characters: longer names are cut.
    """

    def __init__(self, report: ImportReport, base_ns: int, max_name_characters: int) -> None:
        self.report = report
        self.builder = RecordingBuilder()
        self.draft = EventDraft()
        self.clock = TraceClock(base_ns, report)
        self.names = NameTable(self.builder, report, max_name_characters)
        self.categories = CategoryTable()
        self.tracks = TrackTable(report)
        self.inputs = InputsTable(self.builder)
        self.counted = CountedEvents(self.builder)
        self.device_records: list[Records] = []
        self.arguments_records: list[Records] = []
        self.memory_records: list[Records] = []
        self.counters: list[tuple[int, int, int, int, float]] = []
        self._steps: list[tuple[int, int]] = []  # row and number
        self._own_steps: list[OwnStep] = []
        self._op_rows: list[Column] = []
        self._op_external_ids: list[Column] = []

    def durations(self, durations: Column, start_ns: Column) -> Column:
        """Durations that a recording can hold; others become 0 and are counted."""
        missing = durations == NO_TIME
        negative = (durations < 0) & ~missing
        durations = np.where(missing | negative, 0, durations)
        too_late = durations > MAX_TIME_NS - start_ns
        for problem, places in (
            ("no_duration", missing), ("negative_duration", negative), ("time_out_of_range", too_late),
        ):  # fmt: skip
            self.report.add_problem(problem, int(np.count_nonzero(places)))
        return np.where(too_late, 0, durations)

    def add_steps(self, first: int, kinds: Column, names: Column) -> None:
        """Notes which of the events from row `first` on are steps."""
        numbers = self.names.step_numbers
        if not numbers:
            return
        is_step = (kinds == EventKind.USER) & np.isin(names, list(numbers))
        self._steps += [
            (first + index, numbers[int(names[index])]) for index in np.flatnonzero(is_step).tolist()
        ]

    def add_own_step(self, step: OwnStep) -> None:
        """Adds a step that is no event: our exporter wrote it."""
        self._own_steps.append(step)

    def add_op_external_ids(self, first: int, kinds: Column, external_ids: Column) -> None:
        """Notes the external ids of ops among the events from row `first` on."""
        chosen = np.flatnonzero((kinds == EventKind.OP) & (external_ids > 0))
        self._op_rows.append(chosen + first)
        self._op_external_ids.append(external_ids[chosen])

    def ops_by_external_id(self) -> dict[int, int]:
        """Rows of ops by their external id; of several with one the first."""
        rows: dict[int, int] = {}
        for op_rows, ids in zip(reversed(self._op_rows), reversed(self._op_external_ids), strict=True):
            rows.update(zip(reversed(ids.tolist()), reversed(op_rows.tolist()), strict=True))
        return rows

    def set_devices(self, work: Records) -> None:
        """Tells the tracks what device the first work on each is of."""
        tracks = self.draft.column("track")[work["event"].astype(np.int64)]
        found, first = np.unique(tracks, return_index=True)
        for track, index in zip(found.tolist(), first.tolist(), strict=True):
            if not self.tracks.knows_device(track):
                record = work[index]
                self.tracks.set_device(
                    track, int(record["device"]), int(record["context"]), int(record["stream"])
                )

    def hand_over(self) -> Records:
        """Hands all that a recording is made of but links to the builder; returns the device records."""
        draft, builder = self.draft, self.builder
        self.tracks.add_to(builder)
        draft.add_to(builder)
        devices = _joined(self.device_records, DEVICE_DTYPE)
        builder.add_devices(devices)
        arguments, counters = self.counted.split(
            _joined(self.arguments_records, ARGUMENTS_DTYPE), draft.start_ns, draft.track
        )
        builder.add_arguments(arguments)
        builder.add_counters(counters)
        builder.add_memory(_joined(self.memory_records, MEMORY_DTYPE))
        builder.add_counters(np.array(self.counters, dtype=COUNTER_DTYPE))
        for row, number in self._steps:
            builder.add_step(
                draft.start_ns[row],
                draft.end_ns[row],
                number,
                track=draft.track[row],
                flags=StepFlags.HAS_NUMBER,
            )
        for step in self._own_steps:
            builder.add_step(
                step.start_ns, step.end_ns, step.number, track=step.track, phase=step.phase, flags=step.flags
            )
        if names := self.tracks.process_names():
            builder.add_metadata({"process_names": names})
        return devices


def _joined(tables: list[Records], dtype: np.dtype[np.void]) -> Records:
    return np.concatenate(tables) if tables else np.empty(0, dtype=dtype)
