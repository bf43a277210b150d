"""Importers of other packages, by entry point."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from otel_torchprof.importers import ImportReport, InputFile, load
from otel_torchprof.importers.registry import importers, installed_importers
from otel_torchprof.recording import Recording, RecordingBuilder


def test_the_formats_of_this_package() -> None:
    assert {"tprof", "chrome", "otlp", "nsys", "nvprof"} <= {name for name, _importer in importers()}


def test_an_importer_of_another_package_is_asked_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    class LineImporter:
        def recognizes(self, file: InputFile) -> bool:
            return file.head.startswith(b"[lines]")

        def load(self, file: InputFile, report: ImportReport) -> Recording:
            builder = RecordingBuilder()
            track = builder.add_track("lines")
            for number, line in enumerate(file.read().decode().splitlines()[1:]):
                builder.add_event(line, number, number + 1, track=track)
            report.add_problem("none_really")
            return builder.finish()

    module = ModuleType("line_importer")
    module.importer = LineImporter()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "line_importer", module)
    installed = tmp_path / "line_importer-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: line-importer\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(
        "[otel_torchprof_importers]\nlines = line_importer:importer\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    installed_importers.cache_clear()
    request.addfinalizer(installed_importers.cache_clear)

    (tmp_path / "file").write_text("[lines]\none\ntwo\n")
    recording, report = load(tmp_path / "file")
    assert [recording.event_name(row) for row in range(2)] == ["one", "two"]
    assert (report.format, report.problems) == ("lines", {"none_really": 1})
