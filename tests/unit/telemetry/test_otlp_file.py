"""The file exporter: whole lines only, private, and a full disk is a count."""

from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import stat
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

from otel_torchprof.telemetry.otlp_file import OtlpFileSender, OtlpFileSpanExporter
from otel_torchprof.telemetry.send_result import SendResult
from tests.support.requests import make_request


def span_names(path: Path) -> list[str]:
    return [
        span["name"]
        for line in path.read_bytes().splitlines()
        for resource_spans in json.loads(line)["resourceSpans"]
        for scope_spans in resource_spans["scopeSpans"]
        for span in scope_spans["spans"]
    ]


def test_each_request_is_a_line_appended_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "out" / "spans.jsonl"
    sender = OtlpFileSender(path)
    assert sender.send(make_request(2).SerializeToString(), 2) == SendResult(delivered=2)
    assert sender.send(make_request(1, prefix="more").SerializeToString(), 1) == SendResult(delivered=1)
    assert span_names(path) == ["op0", "op1", "more0"]
    assert len(path.read_bytes().splitlines()) == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_sdks_processor_writes_by_it_too(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OtlpFileSpanExporter(path)))
    with provider.get_tracer("job").start_as_current_span("outer"):
        pass
    provider.shutdown()
    assert span_names(path) == ["outer"]


def test_no_spans_no_file(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    assert OtlpFileSpanExporter(path).export([]) is SpanExportResult.SUCCESS
    assert not path.exists()


@pytest.mark.parametrize(
    ("value", "name"), [("mine.jsonl", "mine.jsonl"), ("", "spans.jsonl"), (None, "spans.jsonl")]
)
def test_where_the_file_is(
    tmp_path: Path, value: str | None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if value is not None:
        monkeypatch.setenv("OTEL_PYTHON_TORCHPROF_OTLP_FILE", value)
    exporter = OtlpFileSpanExporter()
    monkeypatch.chdir("/")  # the program goes elsewhere, the file does not
    assert exporter.sender.path == tmp_path / name
    assert exporter.force_flush()


def test_a_symbolic_link_is_not_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    target = tmp_path / "target"
    link = tmp_path / "spans.jsonl"
    link.symlink_to(target)
    result = OtlpFileSender(link).send(make_request(3).SerializeToString(), 3)
    assert result == SendResult(dropped_by_reason={"file_error": 3})
    assert not target.exists()
    assert [record.getMessage() for record in caplog.records] == [
        f"otel-torchprof: spans not written to {link} "
        f"(set by OTEL_PYTHON_TORCHPROF_OTLP_FILE): {os.strerror(errno.ELOOP)}"
    ]


def test_a_pipe_does_not_block_and_is_refused(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    assert OtlpFileSender(fifo).send(make_request(1).SerializeToString(), 1).delivered == 0
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert OtlpFileSender(fifo).send(make_request(1).SerializeToString(), 1).delivered == 0
    finally:
        os.close(reader)


def test_a_full_disk_is_counted_and_leaves_whole_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "spans.jsonl"
    sender = OtlpFileSender(path)
    sender.send(make_request(1).SerializeToString(), 1)
    before = path.read_bytes()
    real_write = os.write
    calls: list[int] = []

    def write(descriptor: int, data: memoryview) -> int:
        calls.append(len(data))
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real_write(descriptor, data[:50])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write)
        assert sender.send(make_request(4).SerializeToString(), 4) == SendResult(
            dropped_by_reason={"file_error": 4}
        )
    assert len(calls) == 2
    assert path.read_bytes() == before
    assert sender.send(make_request(1).SerializeToString(), 1) == SendResult(delivered=1)
    assert span_names(path) == ["op0", "op0"]


def test_a_write_that_is_cut_short_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real_write(descriptor, data[:7]))
    path = tmp_path / "spans.jsonl"
    OtlpFileSender(path).send(make_request(2).SerializeToString(), 2)
    assert span_names(path) == ["op0", "op1"]


def test_a_lock_that_is_never_given_back_is_not_waited_for_longer_than_told(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    with path.open("w") as holder:
        fcntl.flock(holder, fcntl.LOCK_EX)
        result = OtlpFileSender(path).send(make_request(1).SerializeToString(), 1, timeout_s=0.0)
    assert result == SendResult(dropped_by_reason={"file_error": 1})
    assert path.read_bytes() == b""


def _write_many(path: Path, rank: int) -> None:
    sender = OtlpFileSender(path)
    for number in range(20):
        request = make_request(30, padding_bytes=300, prefix=f"rank{rank}.{number}.")
        assert sender.send(request.SerializeToString(), 30).delivered == 30


def test_lines_of_several_processes_never_mix(tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    context = multiprocessing.get_context("fork")
    ranks = [context.Process(target=_write_many, args=(path, rank)) for rank in range(4)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert [rank.exitcode for rank in ranks] == [0] * 4
    names = span_names(path)
    assert len(names) == len(set(names)) == 4 * 20 * 30


def test_what_is_no_request_is_counted(tmp_path: Path) -> None:
    result = OtlpFileSender(tmp_path / "spans.jsonl").send(b"\xff\xff", 5)
    assert result == SendResult(dropped_by_reason={"file_error": 5})


def test_after_the_shutdown_spans_are_dropped(tmp_path: Path) -> None:
    exporter = OtlpFileSpanExporter(tmp_path / "spans.jsonl")
    exporter.shutdown()
    exporter.shutdown()
    assert exporter.sender.send(make_request(2).SerializeToString(), 2) == SendResult.dropped("shut_down", 2)
