"""Chrome trace JSON: Kineto's traces of all ages, and anybody else's `traceEvents`.

    pieces of text --scan--> blocks: columns of common events, texts of odd ones --reader--> rows
          --scopes, flows, links--> B/E pairs, who launched what --> Recording

Native code reads the text piece by piece, so that memory stays well below the size of the file. What it
refuses is searched for whole events (salvage.py) and mended event by event (repair.py); nothing here raises
for what a file contains.
"""

from __future__ import annotations

from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers.chrome.metadata import allowed_metadata, base_time_ns
from otel_torchprof.importers.chrome.reader import TraceReader
from otel_torchprof.importers.chrome.refusal import refusal_of
from otel_torchprof.importers.chrome.scan import begins_document, scan_trace
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import Recording


def recognizes(file: InputFile) -> bool:
    """A JSON array or object. OTLP's JSON is recognized before."""
    return begins_document(file)


def load(file: InputFile, report: ImportReport) -> Recording:
    """Reads every event that is whole.

    Raises:
        UnreadableInputError: there is none, and nothing that says there should be.
    """
    trace = scan_trace(file, report)
    reader = TraceReader(
        trace.scanner,
        report,
        base_time_ns(trace.header),
        file.limits.max_name_characters,
        # Kineto gives the base since its times have fractions, our exporter always.
        may_be_cut="schemaVersion" in trace.header and "baseTimeNanoseconds" not in trace.header,
    )
    for block in trace.take_blocks():
        reader.add(block)
    reader.builder.add_metadata(allowed_metadata(trace.header))
    recording = reader.finish()
    if not trace.is_declared and _is_empty(recording):
        raise UnreadableInputError(refusal_of(file))
    return recording


def _is_empty(recording: Recording) -> bool:
    return not (len(recording) or recording.tracks or len(recording.counters) or len(recording.memory))
