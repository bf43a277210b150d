"""OTLP protobuf as the Collector's file exporter writes it: messages with their length in front."""

from __future__ import annotations

from pathlib import Path

from otel_torchprof.exporters.otlp.all_spans import plan_recording, resource_attributes
from otel_torchprof.exporters.otlp.resource import encode_resource
from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.recording import Recording

suffixes = (".otlp", ".otlp.gz", ".binpb", ".binpb.gz", ".pb", ".pb.gz")

_LENGTH_BYTES = 4  # big endian


def export(recording: Recording, path: Path) -> dict[str, int]:
    """Writes every event as a span, a request at a time; `.gz` at the end of the name compresses the file.

    Returns:
        `spans`, `requests` and `size_bytes`.
    """
    plan = plan_recording(recording)
    requests = 0
    with OutputFile(path) as file:
        for request in plan.encode(encode_resource(resource_attributes(recording))):
            file.write(len(request.payload).to_bytes(_LENGTH_BYTES, "big"))
            file.write(request.payload)
            requests += 1
    return {"spans": len(plan), "requests": requests, "size_bytes": file.size_bytes}
