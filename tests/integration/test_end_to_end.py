"""The main job: a training loop under `opentelemetry-instrument` arrives in a collector, op for op."""

from __future__ import annotations

import json
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.support.instrumented import run_instrumented, run_plain
from tests.support.otlp_sink import OtlpHttpSink
from tests.support.rotel import RotelCollector

PROGRAM = str(Path(__file__).with_name("programs") / "many_threads.py")
STEPS = 3


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Counter[str]:
    """How often torch.profiler saw each name in the same three steps; its own step scopes left out."""
    folder = tmp_path_factory.mktemp("reference")
    run_plain([PROGRAM, "counts.json"], folder)
    counts = json.loads((folder / "counts.json").read_text("utf-8"))
    return Counter({name: n for name, n in counts.items() if not name.startswith("ProfilerStep#")})


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_every_op_arrives_once(protocol: str, expected: Counter[str], tmp_path: Path) -> None:
    count = expected.total() + STEPS
    with OtlpHttpSink() as sink, RotelCollector(tmp_path, forward_to=sink.endpoint) as collector:
        is_grpc = protocol == "grpc"
        run_instrumented(
            [PROGRAM],
            tmp_path,
            {
                "SCHEDULE": "skip_first=2,wait=0,warmup=0,active=3,repeat=1",
                "MAX_SPANS_PER_TRACE": "0",
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
                "OTEL_EXPORTER_OTLP_ENDPOINT": (
                    collector.grpc_endpoint if is_grpc else collector.http_endpoint
                ),
            },
        )
        sink.wait_for_spans(count)
        collector.stop()  # sends what it still holds: one span too many would show
        spans = sink.spans

    names = Counter(span.name for span in spans)
    assert names.pop("torch.step") == STEPS
    assert names == expected
    assert len({(span.trace_id, span.span_id) for span in spans}) == len(spans)
    check_structure(spans)


def check_structure(spans: list[Span]) -> None:
    by_id = {(span.trace_id, span.span_id): span for span in spans}
    steps = [span for span in spans if span.name == "torch.step"]
    assert len({span.trace_id for span in spans}) == STEPS
    for step in steps:
        assert not step.parent_span_id
    for span in spans:
        for link in span.links:
            assert (link.trace_id, link.span_id) in by_id
        if span.name == "torch.step":
            continue
        if is_crossing(span):
            check_crossing(span, by_id)
            continue
        parent = by_id[span.trace_id, span.parent_span_id]
        assert parent.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= parent.end_time_unix_nano
    ordered = sorted(steps, key=lambda step: step.start_time_unix_nano)
    for earlier, later in pairwise(ordered):
        assert earlier.end_time_unix_nano <= later.start_time_unix_nano
        assert earlier.span_id in {link.span_id for link in later.links}


def is_crossing(span: Span) -> bool:
    return any(item.key == "torch.step.crossing" and item.value.bool_value for item in span.attributes)


def check_crossing(span: Span, by_id: dict[tuple[bytes, bytes], Span]) -> None:
    """What outlasts its step stands beside it.

    Here only the frames around a `torch.jit.fork` may: its future is done before they end, so the step can be
    over by the time its thread gets a processor again. All other threads are joined within the step.
    """
    assert span.name in {"forked", "<forked function>"}
    enclosing = by_id.get((span.trace_id, span.parent_span_id))
    assert enclosing is None or is_crossing(enclosing)
    (step,) = [by_id[link.trace_id, link.span_id] for link in span.links]
    assert step.name == "torch.step"
    assert step.start_time_unix_nano <= span.start_time_unix_nano
    assert step.end_time_unix_nano < span.end_time_unix_nano
