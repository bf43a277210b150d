"""OTLP JSON as the Collector's file exporter writes it: one TracesData object a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from otel_torchprof.exporters.otlp.all_spans import plan_recording, resource_attributes
from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.recording import Recording
from otel_torchprof.semconv import SCHEMA_URL
from otel_torchprof.spans import SpanData, SpanLink
from otel_torchprof.spans.plan import SCOPE_NAME
from otel_torchprof.version import __version__

suffixes = (".jsonl", ".jsonl.gz", ".otlp.json", ".otlp.json.gz")

_SPANS_A_LINE = 4096
_KIND_INTERNAL = 1
_STATUS_ERROR = 2
# Of SpanFlags: the low byte is that of W3C, the next says that the parent is known to be local.
_FLAGS_SAMPLED = 1


def export(recording: Recording, path: Path) -> dict[str, int]:
    """Writes every event as a span; `.gz` at the end of the name compresses the file.

    Returns:
        `spans`, `lines` and `size_bytes`.
    """
    plan = plan_recording(recording)
    resource = {"attributes": _attributes(resource_attributes(recording))}
    lines = 0
    with OutputFile(path) as file:
        for batch in _batches(plan.spans()):
            document = {
                "resourceSpans": [
                    {
                        "resource": resource,
                        "scopeSpans": [
                            {
                                "scope": {"name": SCOPE_NAME, "version": __version__},
                                "spans": [_span(span) for span in batch],
                                "schemaUrl": SCHEMA_URL,
                            }
                        ],
                    }
                ]
            }
            text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
            file.write(text.encode("utf-8", "replace") + b"\n")
            lines += 1
    return {"spans": len(plan), "lines": lines, "size_bytes": file.size_bytes}


def _batches(spans: Iterable[SpanData]) -> Iterator[list[SpanData]]:
    iterator = iter(spans)
    while batch := list(islice(iterator, _SPANS_A_LINE)):
        yield batch


def _span(span: SpanData) -> dict[str, Any]:
    document: dict[str, Any] = {"traceId": f"{span.trace_id:032x}", "spanId": f"{span.span_id:016x}"}
    if span.parent_span_id:
        document["parentSpanId"] = f"{span.parent_span_id:016x}"
    document |= {
        "flags": _FLAGS_SAMPLED,
        "name": span.name,
        "kind": _KIND_INTERNAL,
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _attributes(span.attributes),
    }
    if span.links:
        document["links"] = [_link(link) for link in span.links]
    if span.error is not None:
        document["status"] = {"message": span.error, "code": _STATUS_ERROR}
    return document


def _link(link: SpanLink) -> dict[str, Any]:
    return {
        "traceId": f"{link.trace_id:032x}",
        "spanId": f"{link.span_id:016x}",
        "attributes": _attributes(link.attributes),
    }


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, str):
        return {"stringValue": value}
    return {"arrayValue": {"values": [_value(item) for item in value]}}
