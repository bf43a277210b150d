"""`otel-torchprof replay`: old traces into servers of today."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_torchprof.cli import main
from otel_torchprof.importers import load
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, StepFlags, TrackKind
from tests.support.otlp_sink import HttpAnswer, OtlpGrpcSink, OtlpHttpSink

DATA = Path(os.environ.get("OTEL_TORCHPROF_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")
WORK = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)


@pytest.fixture
def sink() -> Iterator[OtlpHttpSink]:
    with OtlpHttpSink() as server:
        yield server


@pytest.fixture
def recording_path(tmp_path: Path) -> Path:
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1)
    for number in range(2):
        start_ns = 1_000_000_000 + number * 150_000_000
        builder.add_step(start_ns, start_ns + 100_000_000, number, flags=StepFlags.HAS_NUMBER)
        for index in range(10):
            builder.add_event(f"op {index}", start_ns + index * 1_000_000, start_ns + (index + 1) * 1_000_000)
    builder.finish().save(tmp_path / "run.tprof")
    return tmp_path / "run.tprof"


def attribute(span: Span, name: str) -> object:
    values = [item.value for item in span.attributes if item.key == name]
    return getattr(values[0], values[0].WhichOneof("value")) if values else None


def test_every_event_arrives_with_the_time_it_had(recording_path: Path, sink: OtlpHttpSink) -> None:
    assert (
        main(["replay", str(recording_path), "--endpoint", sink.endpoint, "--max-spans-per-trace", "0"]) == 0
    )
    assert sink.span_names["torch.step"] == 2
    (first, second) = (span for span in sink.spans if span.name == "op 3")
    assert (first.start_time_unix_nano, second.end_time_unix_nano) == (1_003_000_000, 1_154_000_000)
    resource = sink.received[0].request.resource_spans[0].resource
    assert {item.key for item in resource.attributes} >= {"service.name", "service.instance.id", "torch.rank"}


def test_grpc(recording_path: Path) -> None:
    with OtlpGrpcSink() as sink:
        arguments = ["--endpoint", sink.endpoint, "--protocol", "grpc"]
        assert main(["replay", str(recording_path), *arguments]) == 0
        assert len(sink.spans) == 22


def test_the_budget_folds(recording_path: Path, sink: OtlpHttpSink) -> None:
    assert (
        main(["replay", str(recording_path), "--endpoint", sink.endpoint, "--max-spans-per-trace", "4"]) == 0
    )
    assert len(sink.spans) == 8


def test_a_second_replay_sends_the_same_spans(recording_path: Path, sink: OtlpHttpSink) -> None:
    for _ in range(2):
        assert main(["replay", str(recording_path), "--endpoint", sink.endpoint]) == 0
    ids = [span.span_id for span in sink.spans]
    assert ids[: len(ids) // 2] == ids[len(ids) // 2 :]


def test_realtime_takes_as_long_as_it_took(recording_path: Path, sink: OtlpHttpSink) -> None:
    started_s = time.monotonic()
    assert main(["replay", str(recording_path), "--endpoint", sink.endpoint, "--realtime"]) == 0
    # The spans end 250 ms after the first began; never sent earlier.
    assert time.monotonic() - started_s >= 0.25
    assert len(sink.spans) == 22


def test_json_counts(recording_path: Path, sink: OtlpHttpSink, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(recording_path), "--endpoint", sink.endpoint, "--json"]) == 0
    counts = json.loads(capsys.readouterr().out)
    assert counts == {
        "spans": 22,
        "delivered": 22,
        "rejected": 0,
        "dropped": 0,
        "reason": "",
        "endpoint": sink.endpoint,
    }


def test_a_server_that_refuses_is_exit_2_and_one_line(
    recording_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OtlpHttpSink(HttpAnswer(400)) as sink:
        assert main(["replay", str(recording_path), "--endpoint", sink.endpoint]) == 2
    assert capsys.readouterr().err == (
        f"otel-torchprof: 22 of 22 spans were not taken by {sink.endpoint}: refused\n"
    )


needs_data = pytest.mark.skipif(
    not (DATA / "kineto").is_dir(), reason=f"no test data in {DATA}: set OTEL_TORCHPROF_TEST_DATA"
)


@needs_data
@pytest.mark.parametrize("name", ["alexnet_a100", "h100_bert_small"])
def test_each_kernel_arrives_with_its_link_and_lane(name: str, sink: OtlpHttpSink) -> None:
    path = DATA / "kineto" / f"{name}.json.gz"
    recording, _report = load(path)
    assert main(["replay", str(path), "--endpoint", sink.endpoint, "--max-spans-per-trace", "0"]) == 0
    by_id = {span.span_id: span for span in sink.spans}
    assert len(by_id) == len(sink.spans)
    kinds = {"kernel", "memcpy", "memset"}
    work = [span for span in sink.spans if attribute(span, "torch.event.kind") in kinds]
    assert len(work) == work_in(recording)
    streams = {track.thread_id for track in recording.tracks if track.kind == TrackKind.STREAM}
    assert {lane_of(span, by_id) for span in work} <= streams
    linked = [span for span in work if any(link.span_id in by_id for link in span.links)]
    assert len(linked) == launches_in(recording)


@needs_data
@pytest.mark.parametrize("name", ["alexnet_a100", "h100_bert_small"])
def test_with_the_budget_nothing_of_the_time_is_lost(name: str, sink: OtlpHttpSink) -> None:
    path = DATA / "kineto" / f"{name}.json.gz"
    assert main(["replay", str(path), "--endpoint", sink.endpoint, "--max-spans-per-trace", "200"]) == 0
    assert 100 < len(sink.spans) <= 200 * len({span.trace_id for span in sink.spans})


def lane_of(span: Span, by_id: dict[bytes, Span]) -> int:
    """The number of the stream whose lane a span lies in; annotations may lie between."""
    while " stream " not in span.name:
        span = by_id[span.parent_span_id]
    return int(span.name.rpartition(" stream ")[2])


def work_in(recording: Recording) -> int:
    return sum(recording.events.kind.tolist().count(kind) for kind in WORK)


def launches_in(recording: Recording) -> int:
    kinds = recording.events.kind
    return len({to for to in recording.links.to_event.tolist() if kinds[to] in WORK})
