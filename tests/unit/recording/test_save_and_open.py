"""Saving and opening: nothing is lost, nothing is left behind, nothing that is no file is touched."""

from __future__ import annotations

import os
import resource
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given

from otel_torchprof._native import core
from otel_torchprof.errors import RecordingFormatError, TorchprofError
from otel_torchprof.recording import EventFlags, Recording, RecordingBuilder, StepFlags
from tests.support.core_ops import op
from tests.support.recordings import columns, recordings

GRANULE_BYTES = 16 * 1024


@pytest.fixture
def recording() -> Recording:
    builder = RecordingBuilder()
    builder.add_track("main")
    for start_ns in range(100):
        builder.add_event(f"op {start_ns % 7}", start_ns, start_ns + 1)
    return builder.finish()


def _names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@given(recordings())
def test_what_is_saved_is_opened(tmp_path_factory: pytest.TempPathFactory, saved: Recording) -> None:
    path = tmp_path_factory.getbasetemp() / "round-trip.tprof"
    saved.save(path)
    opened = Recording.open(path)
    expected = columns(saved)
    assert columns(opened) == expected
    opened.save(path)
    assert columns(Recording.open(path)) == expected


def test_a_large_recording_spans_many_chunks(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    names = [builder.add_name(f"{'long name ' * 50}{number}") for number in range(5_000)]
    rows = range(60_000)
    row_names = [names[row % 5_000] for row in rows]
    builder.add_events(row_names, list(rows), [row + 1 for row in rows], [0] * len(rows))
    one_long_string = bytes([1, 6, *b"\x80\x80\x60", *bytes(96 * 16_384)])
    builder.add_event("with inputs", 60_000, 60_001, inputs=one_long_string)
    recording = builder.finish()
    recording.save(tmp_path / "large.tprof")
    assert (tmp_path / "large.tprof").stat().st_size > 5 * 1024 * 1024
    opened = Recording.open(tmp_path / "large.tprof")
    assert opened.problems == {}
    assert opened.events.start_ns.tolist() == recording.events.start_ns.tolist()
    assert opened.event_name(59_999) == recording.event_name(59_999)
    assert opened.inputs(60_000) == ["\0" * (96 * 16_384)]


def test_files_are_private_and_replaced_in_one_go(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / "run.tprof"
    path.write_bytes(b"before")
    with path.open("rb") as reader:
        recording.save(path)
        assert reader.read() == b"before"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert _names_in(tmp_path) == ["run.tprof"]


def test_a_symbolic_link_is_replaced_not_followed(recording: Recording, tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"precious")
    (tmp_path / "run.tprof").symlink_to("target")
    recording.save(tmp_path / "run.tprof")
    assert (tmp_path / "target").read_bytes() == b"precious"
    assert not (tmp_path / "run.tprof").is_symlink()


def test_failing_to_write_leaves_no_debris(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / "run.tprof"
    path.write_bytes(b"before")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (GRANULE_BYTES, limits[1]))
        with pytest.raises(OSError, match=r"run\.tprof"):
            recording.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert _names_in(tmp_path) == ["run.tprof"]
    assert path.read_bytes() == b"before"


@pytest.mark.parametrize("target", ["missing/run.tprof", "."])
def test_a_place_that_cannot_be_written_is_named(recording: Recording, tmp_path: Path, target: str) -> None:
    with pytest.raises(OSError, match=str(tmp_path)):
        recording.save(tmp_path / target)
    assert _names_in(tmp_path) == []


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Recording.open(tmp_path / "none.tprof")
    assert caught.value.filename == str(tmp_path / "none.tprof")


def test_a_path_need_not_be_utf8(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"run-\xff.tprof")
    recording.save(path)
    assert [os.fsencode(child.name) for child in tmp_path.iterdir()] == [b"run-\xff.tprof"]
    assert columns(Recording.open(path)) == columns(recording)
    path.write_bytes(b"no recording")
    with pytest.raises(RecordingFormatError, match="is not a recording"):
        Recording.open(path)
    capture = core.Capture(path, 1 << 20)
    capture.start()
    capture.stop()
    assert Recording.open(path).stopped
    with pytest.raises(FileNotFoundError) as caught:
        Recording.open(tmp_path / "\udcff" / "none.tprof")
    assert caught.value.filename == str(tmp_path / "\udcff" / "none.tprof")


def test_a_path_is_not_cut_off_at_a_null_character(recording: Recording, tmp_path: Path) -> None:
    path = f"{tmp_path}/run\0.tprof"
    for use in (recording.save, Recording.open, lambda path: core.Capture(path, 1 << 20)):
        with pytest.raises(ValueError, match="null"):
            use(path)
    assert _names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a recording"),
        (b"TPROF", "is not a recording"),
        (b'{"traceEvents": []}' * 10_000, "is not a recording"),
        (b"TPROF\r\n\x1a" + bytes(100), "is cut off within its header"),
    ],
)
def test_what_is_no_recording_is_one_clear_line(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "odd.tprof"
    path.write_bytes(content)
    with pytest.raises(RecordingFormatError, match=message) as caught:
        Recording.open(path)
    assert isinstance(caught.value, TorchprofError)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_directories_pipes_and_sockets_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecordingFormatError, match="not a regular file"):
        Recording.open(tmp_path / "pipe")
    with pytest.raises(RecordingFormatError, match="not a regular file"):
        Recording.open(tmp_path)
    with pytest.raises(RecordingFormatError, match="not a regular file"):
        Recording.open("/dev/zero")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        with pytest.raises(OSError, match="socket"):
            Recording.open(tmp_path / "socket")


def test_a_capture_and_its_file_say_the_same(tmp_path: Path) -> None:
    path = tmp_path / "run.tprof"
    capture = core.Capture(str(path), 1 << 20)
    slot = capture.start()
    capture.add_metadata(b'{"rank": 3}')
    capture.begin_step(7, 1, StepFlags.HAS_NUMBER, bytes(range(24)), 1, bytes(48))
    with op(slot, "outer", inputs=b"\x01\x03\x06"), op(slot, "inner"):
        # A file that is still being written is read as far as it goes.
        growing = Recording.open(path)
    capture.end_step()
    capture.stop()
    assert [growing.event_name(row) for row in range(2)] == ["outer", "inner"]
    assert not growing.stopped
    assert all(growing.events.flags == EventFlags.UNFINISHED)

    opened = Recording.open(path)
    assert columns(opened) == columns(Recording(capture.recording()))
    assert opened.problems == {}
    assert opened.stopped
    assert opened.inputs(0) == [3]
    assert opened.metadata["rank"] == 3
    assert opened.tree().parent.tolist() == [-1, 0]
    (step,) = opened.steps
    assert (step.number, len(step.links), step.context.span_id) == (7, 2, bytes(range(16, 24)))
    assert step.start_ns <= opened.events.start_ns[0] <= opened.events.end_ns[0] <= step.end_ns
    opened.save(tmp_path / "saved.tprof")
    assert columns(Recording.open(tmp_path / "saved.tprof")) == columns(opened)


def test_a_killed_process_leaves_a_file_that_opens(tmp_path: Path) -> None:
    path = tmp_path / "killed.tprof"
    script = (
        "import os, signal, sys\n"
        "from otel_torchprof._native import core\n"
        "from tests.support.core_ops import begin_op, op\n"
        "capture = core.Capture(sys.argv[1], 1 << 20)\n"
        "slot = capture.start()\n"
        "capture.begin_step(1, 0, 0, b'', 0, b'')\n"
        "begin_op(slot, 'open')\n"
        "for number in range(1000):\n"
        "    with op(slot, f'op {number}'): pass\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    root = Path(__file__).parents[3]
    killed = subprocess.run([sys.executable, "-c", script, str(path)], cwd=root, check=False)
    assert killed.returncode == -signal.SIGKILL
    recording = Recording.open(path)
    assert not recording.stopped
    assert len(recording) == 1001
    assert recording.event_name(1000) == "op 999"
    assert recording.events.flags[0] == EventFlags.UNFINISHED
    assert not recording.events.flags[1:].any()
    assert recording.tree().parent.tolist() == [-1] + [0] * 1000
    assert recording.steps[0].flags == StepFlags.UNFINISHED | StepFlags.PARTIAL | StepFlags.HAS_NUMBER
    assert recording.steps[0].end_ns >= recording.events.end_ns.max()
