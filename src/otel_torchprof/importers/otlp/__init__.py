"""OTLP traces: what a Collector's file exporter wrote, and single requests, as protobuf or JSON.

    bytes --messages--> one request each --json_spans / protobuf_spans--> spans --restore--> Recording

Our own spans become again what they were made from; spans of anybody else become events of kind SPAN.
"""

from __future__ import annotations

from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.otlp.messages import Encoding, encoding_of, read_batches
from otel_torchprof.importers.otlp.restore import SpanRestorer
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import Recording


def recognizes(file: InputFile) -> bool:
    """Whether the file begins as a request with spans does."""
    return encoding_of(file.head) is not Encoding.NONE


def load(file: InputFile, report: ImportReport) -> Recording:
    """Reads the spans of all messages."""
    restorer = SpanRestorer(report, file.limits.max_name_characters)
    for batch in read_batches(file.read(), encoding_of(file.head), report):
        restorer.add(batch)
    return restorer.finish()
