"""Prometheus with the shipped configuration scrapes trainings as they run, with their own recorders."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof import Recording
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.metrics.families import HistogramPoint, NumberPoint
from otel_torchprof.metrics.from_recording import families_from_recording
from otel_torchprof.recorder.steps import process_steps
from otel_torchprof.semconv_metrics import (
    COLLECTIVE_NAME,
    CPU_COUNT,
    CUDA_DEVICE_INDEX,
    EVENTS_DROPPED,
    EXPORT_DROPPED_RECORDINGS,
    EXPORT_FAILED_SPANS,
    METRICS,
    OP_CALLS,
    PHASE,
    STEP_DURATION,
)
from otel_torchprof.telemetry.prometheus_names import prometheus_sample_names
from tests.integration.programs.plain_loop import train
from tests.support.dashboards import PanelQuery, panel_queries
from tests.support.ports import free_ports
from tests.support.prometheus import PrometheusServer
from tests.support.shipped_prometheus import JOB, shipped_prometheus

_PROGRAM = Path(__file__).with_name("programs") / "distributed_training.py"
_RANKS = 2
_STEPS = 12
_SCRAPES = 4
_END_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Distributed:
    """A training on two ranks, and the Prometheus that scrapes both."""

    server: PrometheusServer
    folder: Path
    ports: list[int]


@pytest.fixture(scope="module")
def distributed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Distributed]:
    folder = tmp_path_factory.mktemp("training")
    ports, master_port = consecutive_ports(_RANKS), free_ports(1)[0]
    scripts = Path(sys.executable).parent
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | {
        "OTEL_TRACES_EXPORTER": "otlp_file",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_PYTHON_TORCHPROF_OTLP_FILE": str(folder / "spans.jsonl"),
        "OTEL_PYTHON_TORCHPROF_PROMETHEUS_PORT": str(ports[0]),
        "OTEL_PYTHON_TORCHPROF_INTERVAL": "2",
        "OMP_NUM_THREADS": "1",
        "PATH": os.pathsep.join([str(scripts), os.environ.get("PATH", "")]),
    }
    launcher = [str(scripts / name) for name in ("opentelemetry-instrument", "torchrun")]
    command = [*launcher, f"--nproc-per-node={_RANKS}", f"--master-port={master_port}", str(_PROGRAM)]
    prometheus_folder = tmp_path_factory.mktemp("prometheus")
    with (folder / "training.log").open("wb") as log, shipped_prometheus(prometheus_folder, ports) as server:
        training = subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)
        try:
            enough = (
                f"count(count_over_time(torch_step_duration_seconds_count[1m]) >= {_SCRAPES}) >= {_RANKS}"
            )
            spans = f"count(torchprof_export_spans_total > 0) == {_RANKS}"

            def is_under_way() -> bool:
                assert training.poll() is None, (folder / "training.log").read_text()[-2000:]
                return bool(server.query(enough)) and bool(server.query(spans))

            server.wait_for(is_under_way, "both ranks were scraped and have sent spans", timeout_s=120.0)
            yield Distributed(server, folder, ports)
        finally:
            (folder / "stop").touch()
            try:
                training.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                training.kill()
                training.wait()
    assert training.returncode == 0, (folder / "training.log").read_text()[-2000:]


def consecutive_ports(count: int) -> list[int]:
    while True:
        (first,) = free_ports(1)
        ports = list(range(first, first + count))
        if ports[-1] < 2**16 and not any(map(is_taken, ports)):
            return ports


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return True
    return False


def may_be_missing() -> set[str]:
    """What a training has no series of that has no device and no fault, and asks for nothing more."""
    return {
        name
        for metric in METRICS
        if metric.is_opt_in
        or {CUDA_DEVICE_INDEX, COLLECTIVE_NAME} & set(metric.attributes)
        or metric.name in {CPU_COUNT, EXPORT_FAILED_SPANS, EXPORT_DROPPED_RECORDINGS, EVENTS_DROPPED}
        for name in prometheus_sample_names(metric)
    }


def metrics_of(query: PanelQuery) -> set[str]:
    """The metrics of ours that a query names."""
    return set(re.findall(r"(?<![:\w])torch(?:prof)?_\w+(?=\{)", query.text))


@pytest.mark.parametrize(
    "query",
    [query for query in panel_queries() if query.language == "promql"],
    ids=lambda query: f"{query.dashboard}: {query.panel}",
)
def test_a_panel_has_data_where_the_training_has_the_metrics(
    distributed: Distributed, query: PanelQuery
) -> None:
    result = distributed.server.query(query.filled())
    missing = {name for name in metrics_of(query) if not distributed.server.query(f"count({name})")}
    assert missing <= may_be_missing()
    if not missing and "offset 1d" not in query.text:
        assert result != []


def test_each_rank_is_found_on_its_port(distributed: Distributed) -> None:
    ranks = {
        series["metric"]["instance"]: series["metric"]["torch_rank"]
        for series in distributed.server.query(f'target_info{{job="{JOB}"}}')
    }
    assert ranks == {f"127.0.0.1:{port}": str(rank) for rank, port in enumerate(distributed.ports)}


def test_exemplars_name_delivered_traces(distributed: Distributed) -> None:
    now = time.time()
    found = distributed.server.exemplars("torch_step_duration_seconds_bucket", now - 600.0, now)
    named = {exemplar["labels"]["trace_id"] for series in found for exemplar in series["exemplars"]}
    assert {series["seriesLabels"]["instance"] for series in found} == {
        f"127.0.0.1:{port}" for port in distributed.ports
    }
    delivered = {
        span["traceId"]
        for line in (distributed.folder / "spans.jsonl").read_text("utf-8").splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
        if span["name"] == "torch.step"
    }
    assert named
    assert named <= delivered


def test_scraped_counters_equal_the_recording_of_the_same_run(tmp_path: Path) -> None:
    process_steps.start_over()
    (port,) = free_ports(1)
    instrumentor = TorchprofInstrumentor()
    (tmp_path / "prometheus").mkdir()
    instrumentor.instrument(
        schedule="active=1000",
        metrics_sampling="full",
        max_overhead=1,
        recording_dir=str(tmp_path),
        span_exporter=InMemorySpanExporter(),
        prometheus_port=port,
    )
    try:
        with shipped_prometheus(tmp_path / "prometheus", [port]) as server:
            began_s = time.time()
            train(_STEPS)
            ended_s = time.time()
            server.wait_for(
                lambda: server.query(f"timestamp(torch_step_number) > {ended_s} and torch_step_number") != [],
                "the finished training was scraped",
            )
            # By phase: which names have series of their own depends on when the scrapes were.
            scraped = {
                series["metric"]["torch_phase"]: int(series["value"][1])
                for series in server.query("sum by (torch_phase) (torch_op_calls_total)")
            }
            (steps,) = server.query("torch_step_duration_seconds_count")
            (total,) = server.query("torch_step_duration_seconds_sum")
    finally:
        instrumentor.uninstrument()
        process_steps.start_over()
    (path,) = tmp_path.glob("*.tprof")
    families = {family.metric.name: family for family in families_from_recording(Recording.open(path))}
    recorded: Counter[str] = Counter()
    for point in families[OP_CALLS].points:
        assert isinstance(point, NumberPoint)
        recorded[str(point.attributes[PHASE])] += int(point.value)
    assert scraped == recorded
    assert min(recorded["forward"], recorded["backward"], recorded["optimizer"]) > 0
    (step_durations,) = families[STEP_DURATION].points
    assert isinstance(step_durations, HistogramPoint)
    assert int(steps["value"][1]) == step_durations.count == _STEPS - 1
    assert 0 < float(total["value"][1]) < ended_s - began_s
