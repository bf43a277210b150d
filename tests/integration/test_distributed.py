"""Jobs of several processes: what arrives from which rank, also after one of them was killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.support.instrumented import instrumented_environment, script
from tests.support.otlp_metrics_sink import OtlpMetricsSink
from tests.support.otlp_sink import OtlpHttpSink, Received

PROGRAMS = Path(__file__).with_name("programs")
RANKS = 2
STARTS = 2


def test_after_a_rank_was_killed_both_starts_of_all_ranks_are_told_apart(tmp_path: Path) -> None:
    with OtlpHttpSink() as spans, OtlpMetricsSink() as metrics:
        environment = instrumented_environment(
            {
                "SCHEDULE": "skip_first=2,active=1,repeat=1",
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_METRIC_EXPORT_INTERVAL": "200",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{spans.endpoint}/v1/traces",
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{metrics.endpoint}/v1/metrics",
            }
        )
        os.mkfifo(tmp_path / "go")
        command = [script("opentelemetry-instrument"), sys.executable, "-m", "torch.distributed.run"]
        command += ["--standalone", f"--nproc-per-node={RANKS}", f"--max-restarts={STARTS - 1}"]
        with (tmp_path / "output").open("w") as output:
            job = subprocess.Popen(
                [*command, str(PROGRAMS / "killed_rank.py")],
                cwd=tmp_path,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            # What a killed process has not sent is lost: here all of it is there before.
            spans.wait_for(lambda: len(instances_of_steps(spans)) == RANKS, timeout_s=120)
            metrics.wait_for(lambda: len(instances_of_metrics(metrics)) == RANKS, timeout_s=120)
            (tmp_path / "go").write_bytes(b"")
            assert job.wait(timeout=120) == 0, (tmp_path / "output").read_text("utf-8")
        finally:
            job.terminate()  # and it ends its ranks, which a kill would leave alone
            job.wait(timeout=120)

        steps = instances_of_steps(spans)
        assert len(steps) == RANKS * STARTS
        assert set(steps.values()) == {1}
        assert instances_of_metrics(metrics) == set(steps)
        (run,) = {instance.rpartition("/")[0].rpartition("/")[0] for instance in steps}
        assert re.fullmatch("[0-9a-f-]{36}", run)
        assert set(steps) == {f"{run}/{rank}/{start}" for rank in range(RANKS) for start in range(STARTS)}
        ids = Counter((span.trace_id, span.span_id) for span in spans.spans)
        assert max(ids.values()) == 1
        traces = {span.trace_id for span in spans.spans if span.name == "torch.step"}
        assert len(traces) == RANKS * STARTS


def instances_of_steps(sink: OtlpHttpSink) -> Counter[str]:
    """How many steps arrived from each `service.instance.id`."""
    return Counter(
        instance_of(received)
        for received in sink.received
        for span in received.spans
        if span.name == "torch.step"
    )


def instance_of(received: Received) -> str:
    (resource,) = (item.resource for item in received.request.resource_spans)
    attributes = {item.key: item.value for item in resource.attributes}
    instance: str = attributes["service.instance.id"].string_value
    run_rank, _, _start = instance.rpartition("/")
    assert run_rank.endswith(f"/{attributes['torch.rank'].int_value}")
    assert attributes["torch.world_size"].int_value == RANKS
    return instance


def instances_of_metrics(sink: OtlpMetricsSink) -> set[str]:
    return {resource["service.instance.id"] for resource in sink.resources()}
