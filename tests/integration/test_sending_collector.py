"""The whole way: pipeline, sender, a real collector, and a sink behind it that counts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.sdk.resources import Resource

from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.exporters import destinations_from_environment
from otel_torchprof.telemetry.pipeline import ExportPipeline
from tests.support.export_work import HandMadeWork
from tests.support.otlp_sink import OtlpHttpSink
from tests.support.rotel import RotelCollector

REQUESTS = 4
SPANS_PER_REQUEST = 1500
SPANS = REQUESTS * SPANS_PER_REQUEST


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_every_span_arrives_once(tmp_path: Path, protocol: str, compression: str) -> None:
    with OtlpHttpSink() as sink, RotelCollector(tmp_path, forward_to=sink.endpoint) as collector:
        environ = {
            "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
            "OTEL_EXPORTER_OTLP_ENDPOINT": (
                collector.grpc_endpoint if protocol == "grpc" else collector.http_endpoint
            ),
            "OTEL_EXPORTER_OTLP_COMPRESSION": compression,
        }
        counters = ExportCounters()
        destinations = destinations_from_environment(environ, lambda: Resource({}), counters)
        pipeline = ExportPipeline(destinations, counters)
        assert pipeline.submit(HandMadeWork(REQUESTS, SPANS_PER_REQUEST))
        assert pipeline.shutdown(60.0)
        sink.wait_for_spans(SPANS)
    assert counters.counts().sent_spans == SPANS
    assert sink.span_names == Counter({f"op{number}": REQUESTS for number in range(SPANS_PER_REQUEST)})


def test_what_is_larger_than_a_collector_takes_arrives_all_the_same(tmp_path: Path) -> None:
    # rotel's limit on gRPC messages is 4 MiB; these spans are about 6 MiB.
    with OtlpHttpSink() as sink, RotelCollector(tmp_path, forward_to=sink.endpoint) as collector:
        counters = ExportCounters()
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.grpc_endpoint}
        destinations = destinations_from_environment(environ, lambda: Resource({}), counters)
        pipeline = ExportPipeline(destinations, counters)
        pipeline.submit(HandMadeWork(1, 3000, padding_bytes=2000))
        assert pipeline.shutdown(60.0)
        sink.wait_for_spans(3000)
    assert counters.counts().sent_spans == 3000
    assert sink.span_names == Counter(f"op{number}" for number in range(3000))
