"""The modules in the report's data: the tree, harmless names, the bound."""

from __future__ import annotations

import pytest

from otel_torchprof.exporters.html_report import modules
from otel_torchprof.exporters.html_report.modules import module_rows
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, TrackKind


def nested_modules(children: int) -> Recording:
    builder = RecordingBuilder()
    builder.add_track("main", TrackKind.THREAD)
    builder.add_event("Net", 0, 1000, track=0, kind=EventKind.MODULE)
    for number in range(children):
        start_ns, end_ns = 10 + 20 * number, 11 + 21 * number
        path = f"l.{number}"
        builder.add_event("Li\nnear", start_ns, end_ns, overload=path, track=0, kind=EventKind.MODULE)
    return builder.finish()


def test_columns_of_the_tree() -> None:
    assert module_rows(nested_modules(2)) == {
        "path": ["", "l.0", "l.1"],
        "name": ["Net", "Li\\nnear", "Li\\nnear"],
        "parent": [-1, 0, 0],
        "depth": [0, 1, 1],
        "calls": [1, 1, 1],
        "forward_ns": [1000, 1, 2],
        "self_forward_ns": [997, 1, 2],
        "backward_ns": [0, 0, 0],
        "device_ns": [0, 0, 0],
        "allocated_bytes": [0, 0, 0],
        "parameters": [-1, -1, -1],
        "left_out": 0,
    }


def test_of_too_many_the_dearest_stay_with_their_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "MAX_MODULES", 3)
    rows = module_rows(nested_modules(10))
    assert rows["path"] == ["", "l.8", "l.9"]
    assert rows["parent"] == [-1, 0, 0]
    assert rows["left_out"] == 8


def test_without_modules_there_are_no_rows() -> None:
    rows = module_rows(Recording.empty())
    assert rows["name"] == []
    assert rows["left_out"] == 0
