"""Where a recording can be written as it grows, and where it is kept in memory and saved at the end."""

from __future__ import annotations

from pathlib import Path

import torch

from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recording import Recording
from tests.support.mounts import mounted


def _record_additions(path: Path) -> Capture:
    capture = Capture(path)
    capture.start()
    for _ in range(3):
        torch.ones(2) + 1
    return capture


def _additions(path: Path) -> int:
    recording = Recording.open(path)
    return sum(recording.event_name(row) == "aten::add" for row in range(len(recording)))


def test_an_overlay_as_in_containers_is_written_as_it_grows(tmp_path: Path) -> None:
    below, above, work, at = (tmp_path / name for name in ("below", "above", "work", "at"))
    for directory in (below, above, work, at):
        directory.mkdir()
    layers = f"lowerdir={below},upperdir={above},workdir={work}"
    with mounted("overlay", at, "-o", layers):
        capture = _record_additions(at / "run.tprof")
        assert _additions(at / "run.tprof") == 3, "readable before the end"
        capture.stop()
        assert _additions(at / "run.tprof") == 3


def test_a_file_system_that_promises_no_space_gets_the_recording_at_the_end(tmp_path: Path) -> None:
    with mounted("ramfs", tmp_path):
        capture = _record_additions(tmp_path / "run.tprof")
        capture.stop()
        assert _additions(tmp_path / "run.tprof") == 3
        assert [entry.name for entry in tmp_path.iterdir()] == ["run.tprof"]
