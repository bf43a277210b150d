"""GPU traces of years ago, replayed through a real collector: every kernel with its link and its lane, and
with the default budget nearly all of the time.

What is expected comes from the recording alone, by sums of a few lines.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from otel_torchprof.cli.main import main
from otel_torchprof.importers import load
from otel_torchprof.recording import EventKind, LinkType, Recording, TrackKind
from tests.support.otlp_sink import OtlpHttpSink
from tests.support.rotel import RotelCollector
from tests.support.test_data import KINETO, needs_data

pytestmark = needs_data

WORK = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
CALLS = (EventKind.RUNTIME, EventKind.DRIVER)
WORK_NAMES = {"kernel", "memcpy", "memset"}
CALL_NAMES = {"runtime", "driver"}


@dataclass(frozen=True)
class Arrived:
    """The spans that a collector forwarded."""

    spans: list[Span]

    @property
    def by_id(self) -> dict[tuple[bytes, bytes], Span]:
        return {(span.trace_id, span.span_id): span for span in self.spans}

    def of_kind(self, kinds: set[str]) -> list[Span]:
        return [span for span in self.spans if attribute(span, "torch.event.kind") in kinds]


@pytest.fixture(params=["alexnet_a100", "h100_bert_small"])
def trace(request: pytest.FixtureRequest) -> Path:
    return KINETO / f"{request.param}.json.gz"


@pytest.fixture(params=["grpc", "http/protobuf"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def replay(
    trace: Path, protocol: str, folder: Path, capsys: pytest.CaptureFixture[str], *options: str
) -> Arrived:
    """Through rotel into a server in this process; all that the command says it sent."""
    with OtlpHttpSink() as sink, RotelCollector(folder, sink.endpoint) as collector:
        endpoint = collector.grpc_endpoint if protocol == "grpc" else collector.http_endpoint
        arguments = ["replay", str(trace), "--endpoint", endpoint, "--protocol", protocol, *options]
        assert main(arguments) == 0
        sent = int(capsys.readouterr().out.split(" ")[0].replace(",", ""))
        spans = sink.wait_for_spans(sent)
    assert len(spans) == sent
    return Arrived(spans)


def attribute(span: Span, name: str) -> Any:
    values = [item.value for item in span.attributes if item.key == name]
    return getattr(values[0], values[0].WhichOneof("value")) if values else None


def original_name(span: Span) -> str:
    return str(attribute(span, "torch.original_name") or span.name)


def test_each_kernel_arrives_with_its_launch_link_and_on_its_lane(
    trace: Path, protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrived = replay(trace, protocol, tmp_path, capsys, "--max-spans-per-trace", "0")
    recording, _report = load(trace)
    by_id = arrived.by_id
    assert len(by_id) == len(arrived.spans)
    got = Counter(
        (original_name(span)[:200], span.start_time_unix_nano, span.end_time_unix_nano,
         lane_of(span, by_id), launcher_of(span, by_id))
        for span in arrived.of_kind(WORK_NAMES)
    )  # fmt: skip
    assert got == kernels_of(recording)
    assert sum(launcher is not None for *_, launcher in got.elements()) > 30


def lane_of(span: Span, by_id: dict[tuple[bytes, bytes], Span]) -> int:
    """The number of the stream whose lane a span lies in; annotations may lie between."""
    while " stream " not in span.name:
        span = by_id[span.trace_id, span.parent_span_id]
    return int(span.name.rpartition(" stream ")[2])


def launcher_of(span: Span, by_id: dict[tuple[bytes, bytes], Span]) -> tuple[str, int] | None:
    """Name and start of the span that a launch link leads to."""
    targets = [
        by_id[link.trace_id, link.span_id]
        for link in span.links
        if any(item.value.string_value == "launch" for item in link.attributes)
    ]
    if not targets:
        return None
    (launcher,) = targets
    assert "launch" in attribute(launcher, "torch.link.type")
    return launcher.name, launcher.start_time_unix_nano


def kernels_of(recording: Recording) -> Counter[Any]:
    """Name, times, stream and launching call of all work on devices."""
    columns, links = recording.events, recording.links
    launchers = {
        int(work): int(launcher)
        for launcher, work, kind in zip(links.from_event, links.to_event, links.type, strict=True)
        if kind == LinkType.LAUNCH
    }
    kernels: Counter[Any] = Counter()
    for row in range(len(recording)):
        if columns.kind[row] not in WORK:
            continue
        launcher = launchers.get(row)
        called = None
        if launcher is not None:
            called = (recording.event_name(launcher), int(columns.start_ns[launcher]))
        stream = recording.tracks[columns.track[row]].thread_id
        start_ns, end_ns = int(columns.start_ns[row]), int(columns.end_ns[row])
        kernels[(recording.event_name(row)[:200], start_ns, end_ns, stream, called)] += 1
    return kernels


def test_with_the_default_budget_the_time_is_in_the_kept_spans(
    trace: Path, protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrived = replay(trace, protocol, tmp_path, capsys)
    assert_covered(arrived, load(trace)[0], at_least=0.9)


def test_with_a_budget_half_the_size_still(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrived = replay(trace, "grpc", tmp_path, capsys, "--max-spans-per-trace", "1000")
    assert len(arrived.spans) <= 1000
    assert_covered(arrived, load(trace)[0], at_least=0.9)


def assert_covered(arrived: Arrived, recording: Recording, *, at_least: float) -> None:
    """That the kept spans have so much of the CPU's and of the devices' time, each by itself.

    An event on a thread counts where it has a span of its own, with its self time and that of the runtime
    calls it made; what was folded into what encloses it does not count. A device's work likewise.
    """
    cpu_ns, device_ns = times_of_events(recording)
    kept = Counter(
        (original_name(span)[:200], span.start_time_unix_nano, span.end_time_unix_nano)
        for span in arrived.spans
    )
    assert sum(cpu_ns[key] for key in cpu_ns if kept[key]) >= at_least * sum(cpu_ns.values()) > 0
    assert sum(device_ns[key] for key in device_ns if kept[key]) >= at_least * sum(device_ns.values()) > 0


def times_of_events(recording: Recording) -> tuple[Counter[Any], Counter[Any]]:
    """CPU self time and device time by name, start and end of the event."""
    columns, tree = recording.events, recording.tree()
    cpu_ns: Counter[Any] = Counter()
    device_ns: Counter[Any] = Counter()

    def key(row: int) -> tuple[str, int, int]:
        return recording.event_name(row)[:200], int(columns.start_ns[row]), int(columns.end_ns[row])

    for row in range(len(recording)):
        if columns.kind[row] in WORK:
            device_ns[key(row)] += int(columns.end_ns[row] - columns.start_ns[row])
        elif recording.tracks[columns.track[row]].kind == TrackKind.THREAD:
            op = row
            while columns.kind[op] in CALLS and tree.parent[op] >= 0:
                op = int(tree.parent[op])
            cpu_ns[key(op)] += int(tree.self_ns[row])
    return cpu_ns, device_ns


def test_a_call_that_no_op_made_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At the end of this trace the program waits for the device, which is most of what it does."""
    trace = KINETO / "torch_compile_triton.json.gz"
    arrived = replay(trace, "grpc", tmp_path, capsys)
    waits = [span for span in arrived.of_kind(CALL_NAMES) if span.name == "hipDeviceSynchronize"]
    durations_ns = [span.end_time_unix_nano - span.start_time_unix_nano for span in waits]
    assert sorted(durations_ns) == [801, 11_869_854]
    assert_covered(arrived, load(trace)[0], at_least=0.9)
