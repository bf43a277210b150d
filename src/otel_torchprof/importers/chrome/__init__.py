"""Chrome trace JSON: Kineto's traces of all ages, and anybody else's `traceEvents`.

    bytes --text--> one slice an event --decode--> typed events --reader--> columns
          --scopes, links--> B/E pairs and flows --> Recording

Events are decoded some thousands at a time, so that memory stays near the size of the file. What a strict
JSON parser refuses is mended event by event (repair.py); nothing here raises for what a file contains.
"""

from __future__ import annotations

from otel_torchprof.importers.chrome.decode import decode_batches
from otel_torchprof.importers.chrome.metadata import allowed_metadata, base_time_ns
from otel_torchprof.importers.chrome.reader import TraceReader
from otel_torchprof.importers.chrome.text import split_trace
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import Recording


def recognizes(file: InputFile) -> bool:
    """A JSON array or object. OTLP's JSON is recognized before."""
    return file.head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in {b"[", b"{"}


def load(file: InputFile, report: ImportReport) -> Recording:
    """Reads every event that is whole."""
    trace = split_trace(file.read(), report)
    reader = TraceReader(
        report,
        base_time_ns(trace.header),
        file.limits.max_name_characters,
        is_kineto="schemaVersion" in trace.header,
    )
    for events, texts in decode_batches(trace.events, report):
        reader.add(events, texts)
    reader.builder.add_metadata(allowed_metadata(trace.header))
    return reader.finish()
