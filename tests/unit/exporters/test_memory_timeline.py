"""The memory timeline as files: torch's shapes, and a page that carries what names it may have."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from otel_torchprof.analysis.memory import Category
from otel_torchprof.cli.main import main
from otel_torchprof.errors import NothingToWriteError, TorchprofError
from otel_torchprof.exporters import export, format_of_path
from otel_torchprof.importers import load
from otel_torchprof.recording import MEMORY_DTYPE, Recording, RecordingBuilder
from tests.support.report_recordings import HOSTILE_NAMES
from tests.support.snapshots import START_US, entry, snapshot, stack, training_snapshot


@pytest.fixture
def recording_of(tmp_path: Path) -> Callable[[Any], Recording]:
    def recording_of(value: Any) -> Recording:
        path = tmp_path / "in.pickle"
        path.write_bytes(pickle.dumps(value))
        return load(path)[0]

    return recording_of


Make = Callable[[Any], Recording]


def test_totals_are_what_torch_writes(recording_of: Make, tmp_path: Path) -> None:
    written = export(recording_of(training_snapshot()), tmp_path / "t.json", "memory-timeline")
    times, sizes = json.loads((tmp_path / "t.json").read_text())
    assert times == [START_US - 1, START_US + 1, START_US + 2, START_US + 3]
    unknown = Category.UNKNOWN + 1
    assert [row[unknown] for row in sizes] == [4096, 5120, 9216, 8192]
    assert all(len(row) == 9 and sum(row) == row[unknown] for row in sizes)
    assert written["peak_bytes"] == 9216
    assert written["moments"] == 4


def test_raw_changes_are_what_torch_writes(recording_of: Make, tmp_path: Path) -> None:
    path = tmp_path / "t.raw.json.gz"
    export(recording_of(training_snapshot()), path, "memory-timeline")
    start_ns = START_US * 1000
    assert json.loads(gzip.decompress(path.read_bytes())) == [
        [start_ns - 1, 2, 4096, 7],
        [start_ns + 1000, 2, 1024, 7],
        [start_ns + 2000, 2, 4096, 7],
        [start_ns + 3001, 4, -1024, 7],
    ]


def test_what_was_there_before_has_no_time(recording_of: Make, tmp_path: Path) -> None:
    export(
        recording_of(snapshot([], [entry("free_completed", 5, 0, 64)])),
        tmp_path / "t.json",
        "memory-timeline",
    )
    assert json.loads((tmp_path / "t.json").read_text())[1][-1] == [0] * 9


@pytest.mark.parametrize("name", ["t.html", "t.json", "t.json.gz", "t.raw.json"])
def test_of_a_recording_without_memory_nothing_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(NothingToWriteError, match="no memory recorded"):
        export(Recording.empty(), tmp_path / name, "memory-timeline")
    assert list(tmp_path.iterdir()) == []


def test_the_command_line_says_that_there_is_no_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Recording.empty().save(tmp_path / "empty.tprof")
    page = tmp_path / "out.memory.html"
    assert main(["convert", str(tmp_path / "empty.tprof"), str(page)]) == 2
    said = f"otel-torchprof: {page} is not written: no memory recorded (profile_memory records it)\n"
    assert capsys.readouterr() == ("", said)
    assert not page.exists()


@pytest.mark.parametrize("name", ["t.txt", "t.html.gz", "t"])
def test_a_name_that_does_not_tell_the_form_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(TorchprofError, match="does not tell the form"):
        export(Recording.empty(), tmp_path / name, "memory-timeline")


def test_names_of_other_formats_stay_theirs() -> None:
    assert format_of_path("run.json") == "chrome"
    assert format_of_path("run.memory.json") == "memory-timeline"
    assert format_of_path("run.memory.raw.json.gz") == "memory-timeline"


def test_the_page_is_safe_whatever_it_shows(recording_of: Make, tmp_path: Path) -> None:
    names = [name for name in HOSTILE_NAMES if "\ud800" not in name]
    trace = [entry("alloc", place, place * 64, 8, frames=stack(name)) for place, name in enumerate(names)]
    export(recording_of(snapshot([], trace)), tmp_path / "t.html", "memory-timeline")
    page = (tmp_path / "t.html").read_text("utf-8")
    assert "<img" not in page
    assert page.count("</script>") == 2
    for outside in ("http://", "https://", "url(", "@import"):
        assert outside not in page


def test_the_command_line_shows_a_snapshot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(training_snapshot()))
    assert main(["report", str(path)]) == 0
    text = capsys.readouterr().out
    assert "memory of cuda:0: peak 9.0 KiB" in text
    assert "at the peak, by category    bytes   share\n" in text  # a category has no number of blocks
    assert "backward (app/train.py:1) < <module> (app/train.py:2)" in text  # --json has whole paths
    assert main(["report", str(path), "--json"]) == 0
    (device,) = json.loads(capsys.readouterr().out)["memory"]
    assert device["device"] == "cuda:0"
    assert device["peak"]["total_bytes"] == 9216
    assert [block["size_bytes"] for block in device["peak"]["largest"]] == [4096, 4096, 1024]
    assert main(["info", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["format"] == "cuda-snapshot"
    assert facts["metadata"]["cuda_memory_snapshot"]["devices"]["0"]["reserved_bytes"] == 14336
    assert main(["convert", str(path), str(tmp_path / "out.html"), "--to", "memory-timeline"]) == 0
    assert (tmp_path / "out.html").stat().st_size > 10_000


def without_addresses(changes: list[tuple[int, int, int]], device_type: int = 1) -> Recording:
    """What Kineto recorded in 2021: no addresses. Of each change time, bytes, total (-1 = none)."""
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1)
    memory = np.zeros(len(changes), dtype=MEMORY_DTYPE)
    for name, values in zip(
        ("time_ns", "size_bytes", "total_allocated_bytes"), zip(*changes, strict=True), strict=True
    ):
        memory[name] = values
    memory["event"] = memory["total_reserved_bytes"] = -1
    memory["device_type"] = device_type
    builder.add_memory(memory)
    return builder.finish()


def raw_timeline(recording: Recording, folder: Path) -> list[list[int]]:
    export(recording, folder / "t.raw.json", "memory-timeline")
    changes: list[list[int]] = json.loads((folder / "t.raw.json").read_text())
    return changes


UNKNOWN = int(Category.UNKNOWN)


def test_without_addresses_it_is_what_was_allocated_less_what_was_freed(tmp_path: Path) -> None:
    recording = without_addresses([(1000, 64, -1), (2000, -256, -1), (3000, 512, -1)])
    # 192 bytes of the 256 that were freed must have been there before.
    assert raw_timeline(recording, tmp_path) == [
        [-1, 1, 192, UNKNOWN],
        [1000, 2, 64, UNKNOWN],
        [2000, 4, -256, UNKNOWN],
        [3000, 2, 512, UNKNOWN],
    ]
    written = export(recording, tmp_path / "t.json", "memory-timeline")
    assert written["peak_bytes"] == 512


def test_without_addresses_totals_say_what_was_in_use(tmp_path: Path) -> None:
    recording = without_addresses([(1000, 64, 1064), (2000, -500, 564)])
    assert raw_timeline(recording, tmp_path) == [
        [-1, 1, 1000, UNKNOWN],
        [1000, 2, 64, UNKNOWN],
        [2000, 4, -500, UNKNOWN],
    ]
    export(recording, tmp_path / "t.html", "memory-timeline")
    assert '"name":"cuda:0"' in (tmp_path / "t.html").read_text("utf-8").replace(" ", "")


@pytest.mark.parametrize("name", ["t.memory.html", "t.memory.json", "t.memory.raw.json"])
def test_events_that_say_nothing_make_no_timeline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    without_addresses([(1000, 0, -1), (2000, 0, -1)]).save(tmp_path / "in.tprof")
    assert main(["convert", str(tmp_path / "in.tprof"), str(tmp_path / name)]) == 2
    said = f"{tmp_path / name} is not written: none of 2 memory events says what was allocated\n"
    assert capsys.readouterr() == ("", f"otel-torchprof: {said}")
    assert not (tmp_path / name).exists()
