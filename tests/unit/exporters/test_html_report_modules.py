"""The modules in the report's data: the tree, harmless names, the bound."""

from __future__ import annotations

import pytest

from otel_torchprof.exporters.html_report import modules
from otel_torchprof.exporters.html_report.modules import module_rows
from otel_torchprof.recording import Recording
from tests.support.module_recordings import nested_modules


def test_columns_of_the_tree() -> None:
    assert module_rows(nested_modules(1, 1)) == {
        "path": ["", "layers.0", "layers.0.part0"],
        "name": ["Net", "Layer", "Part\\x1b[2J"],
        "parent": [-1, 0, 1],
        "depth": [0, 1, 2],
        "calls": [1, 1, 1],
        "forward_ns": [1_000_000_000, 450_000_000, 450_000_000],
        "self_forward_ns": [550_000_000, 0, 450_000_000],
        "backward_ns": [0, 0, 0],
        "device_ns": [0, 0, 0],
        "allocated_bytes": [0, 0, 0],
        "parameters": [-1, 12345, -1],
        "left_out": 0,
    }


def test_of_too_many_the_dearest_stay_with_their_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modules, "MAX_MODULES", 4)
    rows = module_rows(nested_modules(10, 1))
    assert rows["path"] == ["", "layers.8", "layers.9", "layers.9.part0"]
    assert rows["parent"] == [-1, 0, 0, 2]
    assert rows["left_out"] == 17


def test_without_modules_there_are_no_rows() -> None:
    rows = module_rows(Recording.empty())
    assert rows["name"] == []
    assert rows["left_out"] == 0
