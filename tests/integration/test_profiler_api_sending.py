"""`otlp_trace_handler`: each cycle of a profile arrives as spans."""

from __future__ import annotations

import pytest
import torch

from otel_torchprof.profiler import otlp_trace_handler, profile, schedule
from tests.support.otlp_sink import OtlpHttpSink


def test_each_cycle_arrives_before_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with OtlpHttpSink() as sink:
        monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sink.endpoint)
        arrived: list[int] = []
        prof = profile(
            schedule=schedule(wait=1, warmup=0, active=1, repeat=2), on_trace_ready=otlp_trace_handler()
        )
        with prof:
            for _ in range(4):
                torch.ones(2).cos()
                prof.step()
                arrived.append(len([span for span in sink.spans if span.name == "aten::cos"]))
        assert arrived == [0, 1, 1, 2]
        numbers = [
            attribute.value.int_value
            for span in sink.spans
            if span.name == "torch.step"
            for attribute in span.attributes
            if attribute.key == "torch.step.number"
        ]
        assert numbers == [1, 3]


def test_a_server_out_of_reach_does_not_stop_the_program(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with profile(on_trace_ready=otlp_trace_handler(timeout_s=5)) as prof:
        torch.ones(2).cos()
    assert len(prof.events())
    assert any(record.levelname == "WARNING" for record in caplog.records)
