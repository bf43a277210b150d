"""Memory in Chrome traces: Kineto's instants, and the totals as curves; and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_torchprof.analysis.averages import averages
from otel_torchprof.cli import main as cli
from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from tests.support.chrome_rules import broken_rules, of_phase, read_strictly
from tests.support.memory_recordings import memory_recording


def test_instants_are_kinetos_and_totals_are_curves(tmp_path: Path) -> None:
    counts = export(memory_recording(), tmp_path / "trace.json")
    trace = read_strictly(tmp_path / "trace.json")
    assert broken_rules(trace) == []
    instants = [(event["name"], event["args"]["Bytes"]) for event in of_phase(trace, "i")]
    assert instants == [
        ("[memory]", 64),
        ("[memory]", -24),
        ("[OutOfMemory]", 1 << 40),
        ("[memory]", 16),
    ]
    curves = [(event["name"], event["args"]) for event in of_phase(trace, "C")]
    assert curves == [
        ("CPU memory", {"allocated": 64}),
        ("CPU memory", {"allocated": 40}),
        ("device 0 memory", {"allocated": 16}),
    ]
    assert counts["instants"] == len(instants)


def test_they_come_back(tmp_path: Path) -> None:
    recording = memory_recording()
    export(recording, tmp_path / "trace.json")
    again, report = load(tmp_path / "trace.json")
    assert report.problems == {}
    assert again.memory.tobytes() == recording.memory.tobytes()
    assert len(again.counters) == 0


def test_memory_of_an_imported_trace_belongs_to_ops(tmp_path: Path) -> None:
    export(memory_recording(), tmp_path / "trace.json")
    again, _report = load(tmp_path / "trace.json")
    (op,) = [row for row in range(len(again)) if again.event_name(row) == "aten::add"]
    use = again.memory_by_event()
    assert (use.allocated_bytes[op], use.freed_bytes[op], use.peak_bytes[op]) == (64, 24, 64)
    assert again.memory_by_event(on_devices=True).allocated_bytes[op] == 16
    (row,) = [row for row in averages(again).rows if row.name == "aten::add"]
    assert (row.host_bytes, row.self_host_bytes, row.device_bytes, row.self_device_bytes) == (40, 40, 16, 16)


def test_report_has_columns_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.json"
    export(memory_recording(), path)
    assert cli.main(["report", str(path), "--sort", "memory"]) == 0
    table = capsys.readouterr().out
    assert all(heading in table for heading in ("CPU mem", "self CPU mem", "device mem", "self device mem"))
    (line,) = [line for line in table.splitlines() if line.startswith("aten::add")]
    assert "40 B" in line
    assert "16 B" in line
    assert cli.main(["report", str(path), "--json"]) == 0
    row = next(row for row in json.loads(capsys.readouterr().out)["rows"] if row["name"] == "aten::add")
    assert (row["host_bytes"], row["self_device_bytes"]) == (40, 16)
