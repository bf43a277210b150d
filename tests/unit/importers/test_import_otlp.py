"""OTLP files: our own spans become what they were made from, whatever encoding they went through."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from otel_torchprof.exporters import export
from otel_torchprof.importers import ImportReport, UnreadableInputError, load
from otel_torchprof.importers.inputs_encoding import InputsEncoder
from otel_torchprof.recording import (
    EventFlags,
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    StepFlags,
    StepPhase,
    TrackKind,
)
from otel_torchprof.spans import Root, SpanLimits, plan_spans
from otel_torchprof.telemetry.otlp_json import request_to_json_line
from tests.support.chrome_traces import links, row_of, times

BASE = 1_700_000_000_000_000_000
TRACE_ID = 0x0123456789ABCDEF0123456789ABCDEF
ALL = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0, runtime_spans=True)
RESOURCE: dict[str, str | int] = {
    "service.name": "trainer",
    "torch.rank": 3,
    "torch.world_size": 8,
    "process.pid": 77,
    "host.name": "node17",
    "process.command_args": "--token=x",
}


def inputs() -> bytes:
    encoder = InputsEncoder(4)
    encoder.tensor("bfloat16", [2, 3], [3, 1])
    encoder.value(2)
    encoder.begin_list(2)
    encoder.value(0.5)
    encoder.value(1.0)
    encoder.none()
    return encoder.finish()


def training_step() -> Recording:
    builder = RecordingBuilder()
    main = builder.add_track("main", process_id=77, thread_id=78, torch_thread_id=1)
    other = builder.add_track("autograd", process_id=77, thread_id=79, torch_thread_id=2)
    stream = builder.add_track("stream 7", TrackKind.STREAM, process_id=77, thread_id=7, device=0)
    builder.add_step(BASE, BASE + 1_000, 4, track=main, phase=StepPhase.TRAIN, flags=StepFlags.HAS_NUMBER)
    builder.add_event("forward", BASE + 10, BASE + 300, track=main, kind=EventKind.USER, scope=7)
    forward = builder.add_event(
        "aten::mm", BASE + 20, BASE + 200, track=main, overload="out", sequence=9, inputs=inputs()
    )
    launch = builder.add_event(
        "cudaLaunchKernel", BASE + 30, BASE + 41, track=main, kind=EventKind.RUNTIME, correlation=5
    )
    builder.add_event(
        "MmBackward0", BASE + 400, BASE + 503, track=other, scope=1, sequence=9, forward_thread=1
    )
    builder.add_event("later", BASE + 20, BASE + 700, track=other, flags=EventFlags.ASYNC)
    kernel = builder.add_event(
        "void gemm<float>(int)", BASE + 60, BASE + 167, track=stream, kind=EventKind.KERNEL, correlation=5
    )
    builder.add_link(launch, kernel, LinkType.LAUNCH)
    assert forward == 1
    return builder.finish()


def request(limits: SpanLimits = ALL) -> bytes:
    recording = training_step()
    root = Root(TRACE_ID, 0xABCD, BASE, BASE + 1_000, step=0, number=4)
    resource = Resource(
        attributes=[
            KeyValue(
                key=key,
                value=AnyValue(string_value=value) if isinstance(value, str) else AnyValue(int_value=value),
            )
            for key, value in RESOURCE.items()
        ]
    )
    (encoded,) = plan_spans(recording, [root], limits).encode(resource.SerializeToString())
    return encoded.payload


def json_line(payload: bytes) -> bytes:
    return request_to_json_line(ExportTraceServiceRequest.FromString(payload))


def length_prefixed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def import_bytes(folder: Path, content: bytes) -> tuple[Recording, ImportReport]:
    (folder / "spans").write_bytes(content)
    return load(folder / "spans")


ENCODINGS: dict[str, Callable[[bytes], bytes]] = {
    "protobuf": lambda payload: payload,
    "length-prefixed protobuf": length_prefixed,
    "JSON line": json_line,
    "indented JSON": lambda payload: json.dumps(json.loads(json_line(payload)), indent=2).encode(),
    "gzip": lambda payload: gzip.compress(length_prefixed(payload)),
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_our_spans_become_what_they_were_made_from(tmp_path: Path, encoding: str) -> None:
    recording, report = import_bytes(tmp_path, ENCODINGS[encoding](request()))
    assert report.format == "otlp"
    assert not report.problems
    before = training_step()
    assert times(recording) == times(before)
    for row in range(len(before)):
        again = row_of(recording, before.event_name(row))
        for column in ("kind", "scope", "flags", "sequence", "forward_thread"):
            ours, theirs = getattr(recording.events, column), getattr(before.events, column)
            assert ours[again] == theirs[row], (before.event_name(row), column)
        track, track_before = (
            of.tracks[of.events.track[at]] for of, at in ((recording, again), (before, row))
        )
        assert (track.kind, track.process_id, track.thread_id, track.device) == (
            track_before.kind,
            track_before.process_id,
            track_before.thread_id,
            track_before.device,
        )
    assert links(recording) == [("cudaLaunchKernel", "void gemm<float>(int)", LinkType.LAUNCH)]
    backward, forward = recording.links.forward_backward_links()
    assert [recording.event_name(int(row)) for row in (*backward, *forward)] == ["MmBackward0", "aten::mm"]
    op = row_of(recording, "aten::mm")
    assert recording.overload_name(int(recording.events.name[op])) == "out"
    assert repr(recording.inputs(op)).replace("unknown 255", "?") == repr(
        before.inputs(row_of(before, "aten::mm"))
    ).replace("unknown 255", "?")
    (step,) = recording.steps
    assert (step.start_ns, step.end_ns, step.number, step.phase) == (BASE, BASE + 1_000, 4, StepPhase.TRAIN)


def test_a_resource_is_copied_by_allow_list(tmp_path: Path) -> None:
    recording, _ = import_bytes(tmp_path, request())
    assert dict(recording.metadata) == {"service_name": "trainer", "rank": 3, "world_size": 8}
    assert recording.process_id == 77


def test_what_was_folded_stays_with_its_span(tmp_path: Path) -> None:
    recording, _ = import_bytes(tmp_path, request(SpanLimits(max_spans_per_trace=4)))
    folded = {
        recording.name(counter["name"]): counter["value"]
        for counter in recording.counters
        if counter["event"] >= 0
    }
    assert folded.get("torch.folded.count", 0) > 0


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_file_of_folded_spans_says_how_many_were_folded(tmp_path: Path, encoding: str) -> None:
    recording, report = import_bytes(
        tmp_path, ENCODINGS[encoding](request(SpanLimits(max_spans_per_trace=2, max_trace_bytes=0)))
    )
    assert len(recording) == 1
    # Of six events, with the lane of the stream: of the step itself, too, which is no event.
    assert recording.metadata["folded_events"] == 6
    (note,) = report.remarks
    assert note.startswith("6 events are not in the file one by one: they were folded into the spans")


def test_many_messages_in_one_file(tmp_path: Path) -> None:
    payload = request()
    one, _ = import_bytes(tmp_path, payload)
    for content in (json_line(payload) * 3, length_prefixed(payload, payload, payload)):
        recording, report = import_bytes(tmp_path, content)
        assert len(recording) == 3 * len(one)
        assert not report.problems["malformed_message"]


def test_a_damaged_line_costs_only_itself(tmp_path: Path) -> None:
    payload = request()
    one, _ = import_bytes(tmp_path, payload)
    recording, report = import_bytes(
        tmp_path, json_line(payload) + b'{"resourceSpans":[\n' + json_line(payload)
    )
    assert len(recording) == 2 * len(one)
    assert report.problems["malformed_message"] == 1


def test_a_trace_may_begin_at_zero(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    track = builder.add_track("main", process_id=77, thread_id=78)
    builder.add_event("aten::mm", 0, 200, track=track)
    builder.add_event("mark", 0, 0, track=track, kind=EventKind.OTHER, flags=EventFlags.INSTANT)
    path = tmp_path / "zero.otlp"
    export(builder.finish(), path)
    recording, report = load(path)
    assert times(recording) == {"aten::mm": (0, 200), "mark": (0, 0)}
    assert report.problems == {}


def test_foreign_spans_lie_on_a_track_a_trace(tmp_path: Path) -> None:
    span = {
        "traceId": "5b" * 16,
        "spanId": "ee" * 8,
        "name": "GET /",
        "startTimeUnixNano": str(BASE),
        "endTimeUnixNano": BASE + 5,
        "attributes": [{"key": "x", "value": {"intValue": "1"}}],
    }
    broken = {**span, "spanId": "ef" * 8, "name": "bad", "endTimeUnixNano": "1"}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
    document = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span, broken, {}, 7]}]}]}
    recording, report = import_bytes(tmp_path, json.dumps(document).encode())
    assert times(recording) == {"GET /": (BASE, BASE + 5), "bad": (BASE, BASE)}
    assert set(recording.events.kind) == {EventKind.SPAN}
    assert [(track.kind, track.name) for track in recording.tracks] == [(TrackKind.OTHER, "shop")]
    assert report.problems == {"no_time": 1, "negative_duration": 1}


@given(
    st.integers(min_value=1),
    st.integers(min_value=0),
    st.integers(0, 255),
    st.sampled_from(sorted(ENCODINGS)),
)
def test_damaged_files(
    tmp_path_factory: pytest.TempPathFactory, cut: int, place: int, value: int, encoding: str
) -> None:
    content = bytearray(ENCODINGS[encoding](PAYLOAD))
    content[place % len(content)] = value
    with suppress(UnreadableInputError):
        import_bytes(tmp_path_factory.mktemp("damaged"), bytes(content[: 1 + cut % len(content)]))


PAYLOAD = request()
