"""`report_all_anti_patterns` prints and writes what torch's own does, also where that fails."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from otel_torchprof.analysis.patterns import report_all_anti_patterns, rows_named
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder

MS = 1_000_000


@dataclass(frozen=True)
class Profile:
    """As much of a profile as is asked for."""

    recording: Recording


def zeroing(place: str = "") -> Profile:
    """A step that fills gradients with zeros for 2 ms; in a function if a place is given."""
    builder = RecordingBuilder()
    builder.add_track("main")
    if place:
        builder.add_event("train", 0, 10 * MS, overload=place, kind=EventKind.PYTHON)
    builder.add_event("Optimizer.zero_grad#SGD.zero_grad", MS, 4 * MS, kind=EventKind.USER)
    builder.add_event("aten::zero_", MS, 3 * MS)
    builder.add_event("aten::mm", 5 * MS, 8 * MS)
    return Profile(builder.finish())


def test_what_was_found_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report_all_anti_patterns(zeroing("/me/a.py:7"), should_benchmark=True)
    lines = capsys.readouterr().out.splitlines()
    assert "[Source Code Location] /me/a.py:7 in train, Optimizer.zero_grad#SGD.zero_grad" in lines
    assert lines[-2] == (
        "Gradients are filled with zeros instead of dropped: 1 events matched. "
        "Estimated saving: 1.00 to 2.00 ms."
    )
    report_all_anti_patterns(zeroing(), print_enable=False)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("place", "file", "line"),
    [("/me/a.py:7", "/me/a.py", 7), ("C:\\me\\a.py:7", "C:\\me\\a.py", 7), ("", "unknown", 0)],
)
def test_the_file_is_by_source(place: str, file: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "torchtidy_report.json"
    path.write_text('{"/me/other.py": []}', "utf-8")
    report_all_anti_patterns(zeroing(place), print_enable=False, json_report_dir=tmp_path)
    report = json.loads(path.read_text("utf-8"))
    assert list(report) == ["/me/other.py", file]
    (entry,) = report[file]
    assert set(entry) == {"line_number", "name", "url", "message"}
    assert entry["line_number"] == line
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("text", ["[]", "not JSON"])
def test_what_is_no_report_stays(text: str, tmp_path: Path) -> None:
    path = tmp_path / "torchtidy_report.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match=r".+"):
        report_all_anti_patterns(zeroing(), print_enable=False, json_report_dir=tmp_path)
    assert path.read_text("utf-8") == text


def test_events_are_found_by_name() -> None:
    recording = zeroing().recording
    assert rows_named(recording, r"^aten::").tolist() == [1, 2]
    assert rows_named(recording, "zero").tolist() == [0, 1]
