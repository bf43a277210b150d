"""OTLP files: both forms say the same, and as protobuf's own reader reads them."""

from __future__ import annotations

import base64
import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from otel_torchprof.exporters import export
from otel_torchprof.exporters.otlp.all_spans import recorded_run, resource_attributes
from otel_torchprof.exporters.otlp.resource import encode_resource
from otel_torchprof.recording import EventKind, LinkType, Recording, RecordingBuilder, StepFlags, TrackKind


def step_on_a_device() -> Recording:
    builder = RecordingBuilder()
    main = builder.add_track("main", process_id=4, thread_id=5)
    stream = builder.add_track("stream 7", TrackKind.STREAM, thread_id=7, device=0)
    builder.add_event("aten::mm", 1_000, 9_000, track=main)
    call = builder.add_event("cudaLaunchKernel", 2_000, 3_000, track=main, kind=EventKind.RUNTIME)
    kernel = builder.add_event("gemm é", 4_000, 8_000, track=stream, kind=EventKind.KERNEL)
    builder.add_link(call, kernel, LinkType.LAUNCH)
    builder.add_step(500, 9_500, 3, track=main, flags=StepFlags.HAS_NUMBER)
    builder.add_metadata({"run_id": "r", "rank": 2, "world_size": 4, "restart": 1, "service_name": "trainer"})
    return builder.finish()


def read_messages(path: Path) -> list[TracesData]:
    """The messages of a file of length-prefixed protobuf."""
    data = path.read_bytes()
    messages: list[TracesData] = []
    while data:
        size = int.from_bytes(data[:4], "big")
        messages.append(TracesData.FromString(data[4 : 4 + size]))
        assert len(data) >= 4 + size
        data = data[4 + size :]
    return messages


def read_lines(path: Path) -> list[TracesData]:
    """The messages of a file of JSON lines; OTLP writes ids in hexadecimal where protobuf has base64."""
    messages = []
    for line in path.read_text("utf-8").splitlines():
        messages.append(ParseDict(_with_base64_ids(json.loads(line)), TracesData()))
    return messages


def _with_base64_ids(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: base64.b64encode(bytes.fromhex(item)).decode()
        if key in {"traceId", "spanId", "parentSpanId"}
        else _with_base64_ids(item)
        for key, item in value.items()
    }


def described(messages: list[TracesData]) -> dict[bytes, Any]:
    """Spans by id, without what only says how the parent is known."""
    spans: dict[bytes, Any] = {}
    for message in messages:
        for resource_spans in message.resource_spans:
            for span in (span for scope in resource_spans.scope_spans for span in scope.spans):
                spans[span.span_id] = (
                    *(span.name, span.trace_id, span.parent_span_id, span.kind),
                    *(span.start_time_unix_nano, span.end_time_unix_nano),
                    sorted((item.key, str(item.value)) for item in span.attributes),
                    [link.span_id for link in span.links],
                )
    return spans


def test_both_forms_say_the_same(tmp_path: Path) -> None:
    recording = step_on_a_device()
    binary = export(recording, tmp_path / "out.otlp")
    lines = export(recording, tmp_path / "out.jsonl")
    messages, read_back = read_messages(tmp_path / "out.otlp"), read_lines(tmp_path / "out.jsonl")
    assert described(messages) == described(read_back)
    assert messages[0].resource_spans[0].resource == read_back[0].resource_spans[0].resource
    # The step, a lane, and all three events: nothing is folded.
    assert binary["spans"] == lines["spans"] == len(described(messages)) == 5
    assert (binary["requests"], lines["lines"]) == (1, 1)
    assert binary["size_bytes"] == (tmp_path / "out.otlp").stat().st_size


def test_the_resource_names_run_and_rank() -> None:
    assert resource_attributes(step_on_a_device()) == {
        "service.name": "trainer",
        "service.instance.id": "r/2/1",
        "process.pid": 0,
        "torch.rank": 2,
        "torch.world_size": 4,
    }


def test_the_environment_names_the_service_where_the_recording_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = RecordingBuilder().finish()
    assert resource_attributes(recording)["service.name"] == "unknown_service:python"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mine")
    assert resource_attributes(recording)["service.name"] == "mine"


def test_recordings_without_a_run_differ_by_their_times() -> None:
    runs = set()
    for start_ns in (5, 6):
        builder = RecordingBuilder()
        builder.add_track("main")
        builder.add_event("op", start_ns, start_ns + 1)
        runs.add(recorded_run(builder.finish()).run_id)
    assert len(runs) == 2


@given(st.dictionaries(st.text(max_size=200), st.text(max_size=20) | st.integers(0, 2**63 - 1), max_size=5))
def test_a_resource_is_read_by_protobuf(attributes: dict[str, str | int]) -> None:
    message = Resource.FromString(encode_resource(attributes))
    found = {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in message.attributes}
    assert found == attributes


def peak_bytes(events: int, path: Path) -> int:
    """Of the memory that exporting takes, that of Python's objects, which hold what was encoded."""
    builder = RecordingBuilder()
    builder.add_track("main")
    name = builder.add_name("aten::add")
    start_ns = 10 * np.arange(events)
    builder.add_events(np.full(events, name), start_ns, start_ns + 5, np.zeros(events))
    recording = builder.finish()
    tracemalloc.start()
    counts = export(recording, path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert counts["spans"] == events + 1
    return peak


@pytest.mark.parametrize(("ending", "enough"), [(".otlp", 18_000), (".jsonl", 12_000)])
def test_memory_does_not_grow_with_the_file(ending: str, enough: int, tmp_path: Path) -> None:
    few, many = (peak_bytes(events, tmp_path / f"run{ending}") for events in (enough, 2 * enough))
    assert many < 1.25 * few
