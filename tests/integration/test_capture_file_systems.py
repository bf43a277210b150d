"""Where a recording can be written as it grows, and where it is kept in memory and saved at the end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recording import Recording
from tests.support.required_tools import skip_or_fail


@contextmanager
def _mounted(kind: str, at: Path, *options: str) -> Iterator[Path]:
    """Mount a file system of `kind`; skips where that is not allowed, as in most containers."""
    mount = shutil.which("mount")
    if mount is None:
        skip_or_fail("no mount command: install util-linux")
    done = subprocess.run(
        [mount, "-t", kind, *options, kind, str(at)], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount {kind} here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        # Lazily: the mapping of a recording lives as long as its capture.
        subprocess.run(["umount", "--lazy", str(at)], check=True)


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
    with _mounted("overlay", at, "-o", layers):
        capture = _record_additions(at / "run.tprof")
        assert _additions(at / "run.tprof") == 3, "readable before the end"
        capture.stop()
        assert _additions(at / "run.tprof") == 3


def test_a_file_system_that_promises_no_space_gets_the_recording_at_the_end(tmp_path: Path) -> None:
    with _mounted("ramfs", tmp_path):
        capture = _record_additions(tmp_path / "run.tprof")
        capture.stop()
        assert _additions(tmp_path / "run.tprof") == 3
        assert [entry.name for entry in tmp_path.iterdir()] == ["run.tprof"]
