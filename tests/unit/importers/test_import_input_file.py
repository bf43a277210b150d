"""Opening files: only what is a file, only within bounds, known by content."""

from __future__ import annotations

import gzip
import os
import pickle
import socket
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import zstandard

from otel_torchprof.importers import ImportLimits, InputFile, UnreadableInputError, load
from otel_torchprof.recording import RecordingBuilder
from tests.support.chrome_traces import complete, import_events, times
from tests.support.privileges import bound_by_permissions

TRACE = b'[{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":5}]'


def refusal(path: Path, **limits: int) -> str:
    with pytest.raises(UnreadableInputError) as caught:
        load(path, limits=ImportLimits(**limits))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    assert (
        refusal(tmp_path / "missing") == f"{tmp_path / 'missing'} cannot be read: No such file or directory"
    )
    assert refusal(tmp_path) == f"{tmp_path} is a folder: name a file in it"
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == f"{tmp_path / 'pipe'} is not a file"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        assert "cannot be read" in refusal(tmp_path / "socket")


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    assert refusal(path) == f"{path} is empty"
    path.write_bytes(pickle.dumps({"a": 1}))
    assert "pickle" in refusal(path)
    path.write_bytes(b"\x7fELF" + bytes(100))
    assert "neither a recording nor a trace" in refusal(path)


def test_a_file_that_must_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(TRACE)
    assert times(load(path)[0]) == {"a": (0, 5_000)}
    path.chmod(0)
    with bound_by_permissions():
        assert refusal(path) == f"{path} cannot be read: Permission denied"


def test_the_name_does_not_matter_and_compression_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "trace.tprof"
    path.write_bytes(gzip.compress(TRACE))
    recording, report = load(path)
    assert times(recording) == {"a": (0, 5_000)}
    assert report.format == "chrome"


def test_zstd(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(zstandard.compress(TRACE[:10]) + zstandard.compress(TRACE[10:]))
    assert times(load(path)[0]) == {"a": (0, 5_000)}
    path.write_bytes(zstandard.compress(TRACE) + bytes(64))
    assert not load(path)[1].problems


def test_gzip_in_several_members(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(gzip.compress(TRACE[:10]) + gzip.compress(TRACE[10:]) + bytes(64))
    recording, report = load(path)
    assert len(recording) == 1
    assert not report.problems


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_compressed_data_that_is_cut_off_yields_what_came_before(
    tmp_path: Path, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "trace"
    # Noise in names, so that the compressed data is made of many blocks.
    noise = Random(0)
    events = b",".join(
        b'{"ph":"X","name":"%s","pid":1,"tid":1,"ts":%d,"dur":1}' % (noise.randbytes(40).hex().encode(), n)
        for n in range(9_999)
    )
    data = compress(b"[" + events + b"]")
    path.write_bytes(data[: len(data) // 2])
    recording, report = load(path)
    assert 1_000 < len(recording) < 9_999
    assert report.problems["compressed_data_cut_off"] == 1
    path.write_bytes(data[:-1])
    assert load(path)[1].problems["compressed_data_cut_off"] == 1
    path.write_bytes(data)
    recording, report = load(path)
    assert len(recording) == 9_999
    assert not report.problems


def test_gzip_bombs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(b"[" + b" " * (4 << 20)))
    assert "unpacks to more than 50 times its size" in refusal(
        path, max_compression_ratio=50, ratio_free_bytes=1 << 20
    )
    assert "holds more than 1,000 bytes" in refusal(path, max_size_bytes=1_000)


def test_zstd_bombs_are_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    compressor = zstandard.ZstdCompressor().compressobj()
    megabyte = bytes(1 << 20)
    with path.open("wb") as file:
        for _ in range(300):
            file.write(compressor.compress(megabyte))
        file.write(compressor.flush())
    limits = ImportLimits(max_size_bytes=16 << 20)
    tracemalloc.start()
    with InputFile(path, limits) as file, pytest.raises(UnreadableInputError, match="holds more than"):
        file.read()
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 128 << 20


def test_what_is_compressed_twice_is_not_unpacked_twice(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    inner = gzip.compress(bytes(64 << 20))
    for compress in (gzip.compress, zstandard.compress):
        path.write_bytes(compress(inner))
        assert refusal(path) == f"{path} is compressed more than once: unpack it first"


NO_TRACES = [b"{}", b"[]", b" [ ] ", b"{", b'{"a": [1, 2]}', b"[1, 2, 3]", b'{"resourceLogs": []}', b"[{}]"]


@pytest.mark.parametrize("content", NO_TRACES)
def test_json_without_a_trace_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert refusal(path) == f"{path} is JSON, but there is no trace in it"


EXECUTION_TRACES = {
    "of 2023": """{
  "schema": "1.0.1", "pid": 563677, "time": "2023-07-14 11:53:07", "start_ts": 6278907328,
  "nodes": [
    {
      "name": "[pytorch|profiler|execution_trace|thread]", "id": 2, "rf_id": 0, "parent": 1, "inputs": []
    }
  ],
  "finish_ts": 6278928026
}""",
    "of today": """{
  "schema": "1.1.1-chakra.0.0.4", "pid": 22909, "time": "2026-11-30 14:05:09", "start_ts": 81274452,
  "nodes": [
      {
        "id": 2, "name": "[pytorch|profiler|execution_trace|thread]", "ctrl_deps": 1,
        "attrs": [{"name": "rf_id", "type": "uint64", "value": 0}]
      }
  ]
}""",
}


@pytest.mark.parametrize("is_whole", [True, False])
@pytest.mark.parametrize("version", EXECUTION_TRACES)
def test_an_execution_trace_is_called_what_it_is(tmp_path: Path, version: str, is_whole: bool) -> None:
    path = tmp_path / "trace.json"
    content = EXECUTION_TRACES[version]
    path.write_text(content if is_whole else content[:-8])
    assert refusal(path) == (
        f"{path} is an execution trace of torch's ExecutionTraceObserver, which holds operators and their "
        "inputs but no times: give the trace that the profiler wrote of the same run (export_chrome_trace)"
    )


@pytest.mark.parametrize("content", [b'{"traceEvents": []}', b'{"resourceSpans": []}', b'{"traceEvents": ['])
def test_a_trace_of_nothing_is_an_empty_recording(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert len(load(path)[0]) == 0


def test_our_own_recordings(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    builder.add_event("op", 10, 20, track=builder.add_track("main"))
    builder.finish().save(tmp_path / "run.json")
    recording, report = load(tmp_path / "run.json")
    assert times(recording) == {"op": (10, 20)}
    assert report.format == "tprof"
    assert report.counts["events"] == 1


def test_a_recording_cut_off_says_so(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    builder.add_event("op", 10, 20, track=builder.add_track("main"))
    builder.finish().save(tmp_path / "run.tprof")
    data = (tmp_path / "run.tprof").read_bytes()
    (tmp_path / "run.tprof").write_bytes(data[:-100])
    assert load(tmp_path / "run.tprof")[1].problems["file_cut_off"] == 1
    (tmp_path / "run.tprof").write_bytes(data[:100])
    assert refusal(tmp_path / "run.tprof")


def test_inputs_of_ops_are_kept(tmp_path: Path) -> None:
    arguments = {
        "Input Dims": [[2, 3], [], [[4], [5, 6]], [], [], [], []],
        "Input type": ["c10::BFloat16", "Scalar", "TensorList", "Scalar", "", "ScalarList", ""],
        "Input Strides": [[3, 1], [], [[1], [6, 1]], [], [], [], []],
        "Concrete Inputs": ["", "9223372036854775807", "", "0.5", "", "[1, -2]", "cuda:0"],
    }
    recording, _ = import_events(tmp_path, [complete("op", n, 1, args=arguments) for n in range(2)])
    assert repr(recording.inputs(0)) == repr(recording.inputs(1))
    tensor, number, tensors, real, nothing, numbers, text = recording.inputs(0) or []
    assert (tensor.dtype, tensor.sizes, tensor.strides) == ("bfloat16", (2, 3), (3, 1))  # type: ignore[union-attr]
    assert (number, real, nothing, text) == (9223372036854775807, 0.5, None, "cuda:0")
    assert [(item.sizes, item.strides) for item in tensors.items] == [((4,), (1,)), ((5, 6), (6, 1))]  # type: ignore[union-attr]
    assert numbers.items == (1, -2)  # type: ignore[union-attr]
