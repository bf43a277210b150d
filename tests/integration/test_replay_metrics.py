"""`otel-torchprof replay --metrics`: the metrics of any recording, sent by OTLP and scraped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_DELTA

from otel_torchprof.cli.main import main
from otel_torchprof.metrics.families import HistogramPoint, NumberPoint, count_series
from otel_torchprof.metrics.from_recording import families_from_recording
from otel_torchprof.recording import (
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    StepFlags,
    StepPhase,
    TrackKind,
)
from otel_torchprof.telemetry.prometheus_names import prometheus_label, prometheus_name
from tests.support.metric_servers import MetricsGrpcServer, MetricsHttpServer
from tests.support.prometheus_text import parse

START_NS = 1_700_000_000_000_000_000
MS = 1_000_000


@pytest.fixture
def recording() -> Recording:
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1)
    builder.add_track("stream 7", TrackKind.STREAM, thread_id=7, device=0)
    for number in range(3):
        start_ns = START_NS + 100 * number * MS
        flags = StepFlags.HAS_NUMBER
        builder.add_step(start_ns, start_ns + 80 * MS, number, phase=StepPhase.TRAIN, flags=flags)
        builder.add_event("aten::mm", start_ns, start_ns + 10 * MS, sequence=number)
        call = builder.add_event("cudaLaunchKernel", start_ns + MS, start_ns + 2 * MS, kind=EventKind.RUNTIME)
        kernel = builder.add_event(
            "void gemm<float>(float*)", start_ns + 3 * MS, start_ns + 9 * MS, track=1, kind=EventKind.KERNEL
        )
        builder.add_link(call, kernel, LinkType.LAUNCH)
    builder.add_metadata({"service_name": "trainer"})
    return builder.finish()


@pytest.fixture
def path(recording: Recording, tmp_path: Path) -> str:
    file = tmp_path / "run.tprof"
    recording.save(file)
    return str(file)


def expected_values(recording: Recording) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """What Prometheus should have: counters and gauges, and of histograms the count."""
    found: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
    for family in families_from_recording(recording):
        for point in family.points:
            labels = frozenset((prometheus_label(key), str(value)) for key, value in point.attributes.items())
            name = prometheus_name(family.metric)
            if isinstance(point, NumberPoint):
                found[name, labels] = point.value
            else:
                found[f"{name}_count", labels] = point.count
    return found


@pytest.mark.parametrize(
    ("server_type", "protocol"), [(MetricsHttpServer, "http/protobuf"), (MetricsGrpcServer, "grpc")]
)
def test_metrics_arrive_with_the_times_of_the_recording(
    server_type: type[MetricsHttpServer | MetricsGrpcServer],
    protocol: str,
    recording: Recording,
    path: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with server_type() as server:
        arguments = ["--metrics", "--endpoint", server.endpoint, "--protocol", protocol]
        assert main(["replay", path, *arguments]) == 0
    families = families_from_recording(recording)
    assert set(server.metrics) == {family.metric.name for family in families}
    (kernels,) = server.metrics["torch.kernel.time"].sum.data_points
    assert kernels.as_double == pytest.approx(0.018)
    assert (kernels.start_time_unix_nano, kernels.time_unix_nano) == (START_NS, START_NS + 280 * MS)
    (steps,) = server.metrics["torch.step.duration"].histogram.data_points
    assert (steps.count, steps.min) == (3, pytest.approx(0.08))
    assert server.resource["service.name"] == "trainer"
    assert set(server.resource) >= {"torch.rank", "service.instance.id"}
    series = count_series(families)
    assert (
        capsys.readouterr().out == f"{series} series of {len(families)} metrics sent to {server.endpoint}\n"
    )


def test_delta_and_exponential_histograms_on_request(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "delta")
    monkeypatch.setenv(
        "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", "base2_exponential_bucket_histogram"
    )
    with MetricsHttpServer() as server:
        assert main(["replay", path, "--metrics", "--endpoint", server.endpoint]) == 0
    kernels = server.metrics["torch.kernel.launches"].sum
    assert kernels.aggregation_temporality == AGGREGATION_TEMPORALITY_DELTA
    (steps,) = server.metrics["torch.step.duration"].exponential_histogram.data_points
    assert (steps.count, steps.scale, sum(steps.positive.bucket_counts)) == (3, 20, 3)


def test_histograms_of_operators_and_kernels_on_request(path: str) -> None:
    with MetricsHttpServer() as server:
        assert main(["replay", path, "--metrics", "--durations", "--endpoint", server.endpoint]) == 0
    assert {"torch.op.duration", "torch.kernel.duration"} <= set(server.metrics)


def test_json_says_what_became_of_them(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with MetricsHttpServer() as server:
        assert main(["replay", path, "--metrics", "--json", "--endpoint", server.endpoint]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {
        "metrics": len(server.metrics),
        "series": said["series"],
        "delivered": True,
        "cause": "",
        "url": "",
        "endpoint": server.endpoint,
    }
    assert said["series"] > 50


def test_a_server_that_refuses_is_exit_2_and_one_line(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with MetricsHttpServer(400) as server:
        assert main(["replay", path, "--metrics", "--endpoint", server.endpoint]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"series were not taken by {server.endpoint}: " in line
    assert "400" in line


def test_no_server_is_exit_2_and_one_line(
    path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        assert main(["replay", path, "--metrics", "--endpoint", endpoint]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith("; is a server running there? --endpoint says where to send")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "replay needs --endpoint URL"),
        (["--metrics"], "replay --metrics needs --endpoint URL or --prometheus-port N"),
        (["--prometheus-port", "0"], "--prometheus-port and --durations are for metrics: add --metrics"),
        (["--durations", "--endpoint", "http://a"], "--prometheus-port and --durations are for metrics"),
        (["--metrics", "--realtime", "--endpoint", "http://a"], "--realtime is for spans"),
    ],
)
def test_options_that_do_not_go_together(
    arguments: list[str], said: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", path, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.parametrize("port", ["-1", "65536", "x", "\N{SUPERSCRIPT TWO}"])
def test_what_is_no_port(port: str, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["replay", path, "--metrics", f"--prometheus-port={port}"])
    assert "is not a port" in capsys.readouterr().err


@contextmanager
def replaying(path: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A replay that is scraped, and the first line it prints."""
    # A background job of a shell ignores interrupts, and so do its children.
    command = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from otel_torchprof.cli.main import main; sys.exit(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", command, "replay", path, "--metrics", "--prometheus-port", "0", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=dict(os.environ),
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline()
    finally:
        process.kill()
        process.communicate()


def scraped(url: str) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    request = urllib.request.Request(url, headers={"accept": "application/openmetrics-text; version=1.0.0"})
    with urllib.request.urlopen(request, timeout=30) as response:
        text = response.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): float(sample.value)
        for family in parse(text, openmetrics=True).values()
        for sample in family.samples
    }


def test_prometheus_scrapes_the_same_numbers_until_it_is_interrupted(recording: Recording, path: str) -> None:
    with (
        MetricsHttpServer() as server,
        replaying(path, "--json", "--endpoint", server.endpoint) as (process, line),
    ):
        said = json.loads(line)
        assert said["delivered"]
        for _scrape in range(2):
            values = scraped(said["url"])
            expected = expected_values(recording)
            assert {key: values[key] for key in expected} == pytest.approx(expected)
        assert "target_info" in {name for name, _labels in values}
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    assert set(server.metrics) == {family.metric.name for family in families_from_recording(recording)}


def test_a_terminated_replay_exits_as_any_command(path: str) -> None:
    with replaying(path) as (process, line):
        assert line.endswith("/metrics until interrupted\n")
        process.terminate()
        assert process.wait(30) == 143


def test_a_port_in_use_is_exit_2_and_one_line(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as used:
        used.bind(("127.0.0.1", 0))
        used.listen()
        port = used.getsockname()[1]
        assert main(["replay", path, "--metrics", "--prometheus-port", str(port)]) == 2
    assert capsys.readouterr().err == (
        f"otel-torchprof: port {port} of 127.0.0.1 cannot be listened on: "
        "--prometheus-port chooses another, 0 a free one\n"
    )


def test_a_histogram_is_as_many_series_as_prometheus_makes(recording: Recording) -> None:
    families = families_from_recording(recording)
    points = [point for family in families for point in family.points]
    histograms = [point for point in points if isinstance(point, HistogramPoint)]
    buckets = sum(len(point.bucket_counts) + 2 for point in histograms)
    assert count_series(families) == len(points) - len(histograms) + buckets
