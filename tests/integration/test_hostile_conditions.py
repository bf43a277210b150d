"""Whatever becomes of collectors, disks and limits: the program ends as it would without us."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from otel_torchprof import Recording
from tests.support.cgroups import lay_cgroups
from tests.support.mounts import mounted, require_own_mounts
from tests.support.otlp_sink import HttpAnswer, OtlpHttpSink
from tests.support.ports import free_ports
from tests.support.trainings import Trainings

_OPS_OF_A_STEP = 50  # at least


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
        pytest.param([HttpAnswer(status=400)] * 9, {1}, id="refusing"),
        pytest.param([HttpAnswer(body=_PARTIAL.SerializeToString())] * 9, {1}, id="half-accepting"),
        # The first request's failure, and that of the program's end where the first came before it.
        pytest.param([HttpAnswer(hangs=True)] * 9, {1, 2}, id="hanging"),
        pytest.param([HttpAnswer(closes=True)], {0}, id="dropping a connection"),
        pytest.param([HttpAnswer(status=503, headers={"retry-after": "0"})] * 2, {0}, id="coming back"),
    ],
)
def test_a_collector_that_answers_otherwise(
    answers: list[HttpAnswer], lines: set[int], trainings: Trainings, loss: str, tmp_path: Path
) -> None:
    with OtlpHttpSink(*answers) as sink:
        said = trainings.run(tmp_path, to(sink))
        steps = sink.span_names["torch.step"]
    assert trainings.loss == loss
    assert len(reasons(said)) == said.count("\n")  # nothing twice
    assert said.count("\n") in lines, said
    if lines == {0}:
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


def test_a_disk_too_small_to_begin(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    folder = tmp_path / "full"
    folder.mkdir()
    with mounted("tmpfs", folder, "-o", "size=64k"):
        said = trainings.run(tmp_path, {"RECORDING_DIR": str(folder)})
        assert trainings.loss == loss
        assert said.count("\n") == len(reasons(said)) <= 2, said


def test_a_disk_that_becomes_full(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted("tmpfs", folder, "-o", "size=1m"), OtlpHttpSink() as sink:
        settings = {**to(sink), "RECORDING_DIR": str(folder), "MAX_SPANS_PER_TRACE": "100"}
        said = trainings.run(tmp_path, settings, ops_a_step=20_000)  # 1.9 MB in a window of two steps
        steps = sink.span_names["torch.step"]
        (path,) = folder.glob("*.tprof")
        first = Recording.open(path)
    assert trainings.loss == loss
    assert steps == 4
    assert set(first.drops) == {"disk_full"}
    assert len(first) > 10_000
    assert len(first) + first.drops["disk_full"] > 2 * 20_000
    # There was no room for the second one, which was recorded in memory.
    (line,) = said.splitlines()
    assert "a recording was not saved to a file in OTEL_PYTHON_TORCHPROF_RECORDING_DIR" in line


@pytest.mark.parametrize("wanted", [False, True], ids=["unused", "as the recording folder"])
def test_a_small_dev_shm(wanted: bool, trainings: Trainings, loss: str, tmp_path: Path) -> None:
    """As containers have it: 64 KiB of it are enough for a program that does not use it, and so for us."""
    require_own_mounts()
    with OtlpHttpSink() as sink:
        settings = {**to(sink), **({"RECORDING_DIR": "/dev/shm/recordings"} if wanted else {})}
        said = trainings.run(tmp_path, settings, dev_shm_bytes=65_536)
        steps = sink.span_names["torch.step"]
    assert trainings.loss == loss
    assert steps == 4
    assert said.count("\n") == len(reasons(said)) == int(wanted), said


def test_what_a_memory_limit_leaves(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    lay_cgroups(tmp_path, {"": {"memory.max": str(50 << 20)}}, used_bytes=46 << 20)  # 1 MiB for recordings
    with OtlpHttpSink() as sink:
        settings = {**to(sink), "MAX_SPANS_PER_TRACE": "100", "RECORDING_DIR": str(tmp_path / "recordings")}
        said = trainings.run(tmp_path, settings, ops_a_step=20_000, cgroup_root=str(tmp_path))
        steps = sink.span_names["torch.step"]
    assert trainings.loss == loss
    assert steps == 4
    (line,) = said.splitlines()
    assert "25% of what the memory limit of" in line
    for path in (tmp_path / "recordings").glob("*.tprof"):
        recording = Recording.open(path)
        assert set(recording.drops) == {"memory_limit"}
        assert len(recording) + recording.drops["memory_limit"] > 2 * 20_000
        limit = recording.metadata["memory_limit"]
        assert (limit["limit_bytes"], limit["left_bytes"]) == (50 << 20, 4 << 20)
        assert limit["recordings_bytes"] >= 1 << 20


@pytest.mark.parametrize(
    "limits",
    [
        {"RLIMIT_FSIZE": 100_000},
        {"RLIMIT_NOFILE": 24},
        {"RLIMIT_NPROC": 1},
        {"RLIMIT_MEMLOCK": 0},
        {"RLIMIT_AS": 2 << 30},  # less than a recording is to reserve
    ],
    ids="".join,
)
def test_limits_of_the_process(
    limits: dict[str, int], trainings: Trainings, loss: str, tmp_path: Path
) -> None:
    with OtlpHttpSink() as sink:
        settings = {"RECORDING_DIR": str(tmp_path / "recordings"), "BUFFER_SIZE_MB": "8192"}
        said = trainings.run(tmp_path, {**to(sink), **settings}, limits=limits)
    assert trainings.loss == loss
    # At most: not to a file, and not at all.
    assert said.count("\n") == len(reasons(said)) <= 2, said
