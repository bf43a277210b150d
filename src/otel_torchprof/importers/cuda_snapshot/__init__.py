"""Snapshots of the CUDA allocator, as `torch.cuda.memory._dump_snapshot` pickles them.

A snapshot says what each device holds now (segments and the blocks in them) and, as far as the allocator's
ring of records reaches, what led there (a trace a device). `docs/memory.md` says what becomes of both.
"""

from __future__ import annotations

from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.cuda_snapshot.device_history import DeviceHistory
from otel_torchprof.importers.cuda_snapshot.plain_pickle import is_pickle, read_plain_pickle
from otel_torchprof.importers.cuda_snapshot.schema import parse_snapshot
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import Recording, RecordingBuilder

_TIMES_NOTE = (
    "Frames are those that allocations and frees were made in: one lasts until the next of them that was not."
)


def recognizes(file: InputFile) -> bool:
    """A pickle of protocol 2 or later; what is no snapshot is refused when it is read."""
    return is_pickle(file.head)


def load(file: InputFile, report: ImportReport) -> Recording:
    """Reads segments, blocks and traces of all devices.

    Raises:
        UnreadableInputError: the pickle holds more than plain data, or is no snapshot.
    """
    snapshot = parse_snapshot(read_plain_pickle(file), file, report)
    builder = RecordingBuilder()
    builder.add_metadata({"cuda_memory_snapshot": snapshot.facts()})
    draft = EventDraft()
    records = [DeviceHistory(builder, draft, device, report).records() for device in snapshot.devices]
    draft.add_to(builder)
    for table in records:
        builder.add_memory(table)
    for device in snapshot.devices:
        report.counts["segments"] += len(device.segments)
        report.counts["blocks"] += len(device.blocks)
    report.notes.append(_TIMES_NOTE)
    return builder.finish()
