"""`otel-torchprof replay`: old traces into servers of today."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_torchprof.cli.main import main
from otel_torchprof.recording import RecordingBuilder, StepFlags
from tests.support.otlp_sink import HttpAnswer, OtlpGrpcSink, OtlpHttpSink


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


def test_every_event_arrives_with_the_time_it_had(recording_path: Path, sink: OtlpHttpSink) -> None:
    assert (
        main(["replay", str(recording_path), "--endpoint", sink.endpoint, "--max-spans-per-trace", "0"]) == 0
    )
    assert sink.span_names["torch.step"] == 2
    (first, second) = (span for span in sink.spans if span.name == "op 3")
    assert (first.start_time_unix_nano, second.end_time_unix_nano) == (1_003_000_000, 1_154_000_000)
    resource = sink.received[0].request.resource_spans[0].resource
    assert {item.key for item in resource.attributes} >= {"service.name", "service.instance.id", "torch.rank"}


@pytest.mark.parametrize("typed", ["", "/", "/v1/traces", "/v1/traces/"])
def test_the_path_of_a_signal_may_be_typed_or_not(
    typed: str, recording_path: Path, sink: OtlpHttpSink
) -> None:
    assert main(["replay", str(recording_path), "--endpoint", sink.endpoint + typed]) == 0
    assert {received.path for received in sink.received} == {"/v1/traces"}


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
        "cause": "",
        "unreachable": False,
        "endpoint": sink.endpoint,
    }


def test_a_server_that_refuses_is_exit_2_and_one_line(
    recording_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with OtlpHttpSink(HttpAnswer(400)) as sink:
        assert main(["replay", str(recording_path), "--endpoint", sink.endpoint]) == 2
    assert capsys.readouterr().err == (
        f"otel-torchprof: 22 of 22 spans were not taken by {sink.endpoint}: refused: 400 Bad Request\n"
    )


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_no_server_is_exit_2_and_one_line_that_names_the_option(protocol: str, recording_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        arguments = ["replay", str(recording_path), "--endpoint", endpoint, "--protocol", protocol]
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys; from otel_torchprof.cli.main import main; sys.exit(main())",
                *arguments,
            ],
            env={**os.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    # On a busy machine the second may be over before gRPC has found out that nobody listens.
    reason = re.escape(f"otel-torchprof: 22 of 22 spans were not taken by {endpoint}: ")
    assert re.match(f"{reason}(unavailable|timeout): ", line)
    assert line.endswith("; is a server running there? --endpoint says where to send")
    # What names no cause: options of the environment, an object of urllib3, the reason a second time.
    assert not re.search("OTEL_|HTTPConnection|UNAVAILABLE: ", line)
