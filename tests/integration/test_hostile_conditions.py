"""Whatever becomes of collectors, disks and limits: the program ends as it would without us."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_torchprof import Recording
from tests.support.instrumented import instrumented_environment
from tests.support.mounts import mounted
from tests.support.otlp_sink import HttpAnswer, OtlpHttpSink
from tests.support.ports import free_ports

PROGRAM = Path(__file__).with_name("programs") / "trainings.py"
_OPS_OF_A_STEP = 50  # at least


class Trainings:
    """Trains in children of one process; see the program."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            env=instrumented_environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, folder: Path, settings: Mapping[str, str], limits: Mapping[str, int] | None = None) -> str:
        """What a training says; it must end with 0 and the loss that it has without us."""
        settings = {
            "SCHEDULE": "skip_first=2,active=2,repeat=2",
            "OTLP_FILE": str(folder / "spans.jsonl"),
            **settings,
        }
        environ = instrumented_environment(settings)
        changed = {name: value for name, value in environ.items() if os.environ.get(name) != value}
        case = {"environ": changed, "limits": dict(limits or {}), "output": str(folder / "output")}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        status = self._process.stdout.readline().strip()
        said = (folder / "output").read_text("utf-8")
        assert status == "0", said
        self.loss = (folder / "output.loss").read_text("utf-8")
        return said

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)


@pytest.fixture(scope="module")
def trainings() -> Iterator[Trainings]:
    trainings = Trainings()
    yield trainings
    trainings.close()


@pytest.fixture(scope="module")
def loss(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the training that nobody looks at."""
    assert trainings.run(tmp_path_factory.mktemp("plain"), {"ENABLED": "false"}) == ""
    return trainings.loss


def reasons(said: str) -> Counter[str]:
    """What was said, without numbers: the same reason twice would be the same text."""
    return Counter(re.sub(r"\d+", "N", line) for line in said.splitlines())


def to(sink: OtlpHttpSink) -> dict[str, str]:
    return {
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
    }


_PARTIAL = ExportTraceServiceResponse()
_PARTIAL.partial_success.rejected_spans = 3
_PARTIAL.partial_success.error_message = "three are enough"


@pytest.mark.parametrize(
    ("answers", "lines"),
    [
        pytest.param([HttpAnswer(status=400)] * 9, 1, id="refusing"),
        pytest.param([HttpAnswer(body=_PARTIAL.SerializeToString())] * 9, 1, id="half-accepting"),
        pytest.param([HttpAnswer(hangs=True)] * 9, 1, id="hanging"),
        pytest.param([HttpAnswer(closes=True)], 0, id="dropping a connection"),
        pytest.param([HttpAnswer(status=503, headers={"retry-after": "0"})] * 2, 0, id="coming back"),
    ],
)
def test_a_collector_that_answers_otherwise(
    answers: list[HttpAnswer], lines: int, trainings: Trainings, loss: str, tmp_path: Path
) -> None:
    with OtlpHttpSink(*answers) as sink:
        said = trainings.run(tmp_path, to(sink))
        steps = sink.span_names["torch.step"]
    assert trainings.loss == loss
    assert len(reasons(said)) == said.count("\n") == lines, said
    if not lines:
        assert steps == 4  # delivery has resumed, and nothing is lost


def test_no_collector_at_all(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    endpoint = f"http://127.0.0.1:{free_ports(1)[0]}"
    said = trainings.run(
        tmp_path,
        {
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
        },
    )
    assert trainings.loss == loss
    assert said.count("\n") == len(reasons(said)) <= 2, said
    assert endpoint in said


def test_a_collector_that_takes_small_requests_only(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    with OtlpHttpSink(max_request_bytes=10_000) as sink:
        said = trainings.run(tmp_path, to(sink))
        names = sink.span_names
    assert trainings.loss == loss
    assert said == ""
    assert names["torch.step"] == 4
    assert names.total() > 4 * _OPS_OF_A_STEP


def recorded(folder: Path) -> list[int]:
    """How many events are in each recording of a folder."""
    return [len(Recording.open(path)) for path in folder.glob("*.tprof")]


def test_a_folder_that_is_not_there_is_made(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    folder = tmp_path / "not" / "there"
    assert trainings.run(tmp_path, {"RECORDING_DIR": str(folder)}) == ""
    assert trainings.loss == loss
    assert min(recorded(folder)) > 2 * _OPS_OF_A_STEP
    assert len(recorded(folder)) == 2


@pytest.mark.parametrize("kind", ["file", "dangling link", "under a file"])
def test_a_folder_that_cannot_be(kind: str, trainings: Trainings, loss: str, tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    if kind == "dangling link":
        folder.symlink_to(tmp_path / "nowhere")
    else:
        folder.touch()
    said = trainings.run(
        tmp_path, {"RECORDING_DIR": str(folder / "deeper" if kind == "under a file" else folder)}
    )
    assert trainings.loss == loss
    (line,) = said.splitlines()  # for two recordings
    assert "OTEL_PYTHON_TORCHPROF_RECORDING_DIR" in line
    assert "nowhere" not in {path.name for path in tmp_path.iterdir()}


def test_a_full_disk(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    with mounted("tmpfs", folder, "-o", "size=64k"):
        said = trainings.run(tmp_path, {"RECORDING_DIR": str(folder)})
        assert trainings.loss == loss
        assert said.count("\n") == len(reasons(said)) <= 2, said


@pytest.mark.parametrize(
    "limits",
    [
        {"RLIMIT_FSIZE": 100_000},
        {"RLIMIT_NOFILE": 24},
        {"RLIMIT_NPROC": 1},
        {"RLIMIT_MEMLOCK": 0},
    ],
    ids="".join,
)
def test_limits_of_the_process(
    limits: dict[str, int], trainings: Trainings, loss: str, tmp_path: Path
) -> None:
    with OtlpHttpSink() as sink:
        said = trainings.run(tmp_path, {**to(sink), "RECORDING_DIR": str(tmp_path / "recordings")}, limits)
    assert trainings.loss == loss
    assert said.count("\n") == len(reasons(said)) <= 2, said
