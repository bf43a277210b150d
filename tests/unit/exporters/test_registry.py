"""Which format a name means, and formats of other packages."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from otel_torchprof.exporters import (
    UnknownFormatError,
    export,
    exporter_names,
    find_exporter,
    format_of_path,
    registry,
)
from otel_torchprof.recording import RecordingBuilder

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("out.json", "chrome"),
        ("out.JSON.GZ", "chrome"),
        ("w.1.pt.trace.json.gz", "chrome"),
        ("run/", "tensorboard"),
        ("out.otlp", "otlp"),
        ("out.binpb.gz", "otlp"),
        ("out.jsonl", "otlp-json"),
        ("out.otlp.json", "otlp-json"),
        ("out.folded", "stacks"),
        ("out.tprof", "tprof"),
    ],
)
def test_the_name_tells_the_format(name: str, format_name: str) -> None:
    assert format_of_path(name) == format_name


def test_a_name_that_tells_nothing_is_refused_with_the_choice() -> None:
    with pytest.raises(UnknownFormatError, match=r"'out.xyz' does not tell the format: choose one of chrome"):
        format_of_path("out.xyz")


def test_an_unknown_format_is_refused_with_the_choice() -> None:
    with pytest.raises(UnknownFormatError, match="no format 'svg'; there are chrome, tensorboard"):
        find_exporter("svg")


def test_the_documented_example_is_an_exporter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "converting.md").read_text("utf-8")
    source = page.split("```python\n# csv_exporter.py\n")[1].split("```")[0]
    (tmp_path / "csv_exporter.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("csv", "csv_exporter", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [point])
    monkeypatch.delitem(sys.modules, "csv_exporter", raising=False)

    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("aten::add", 5, 12)
    assert "csv" in exporter_names()
    counts = export(builder.finish(), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == "name,start_ns,end_ns\naten::add,5,12\n"
    assert counts == {"events": 1, "size_bytes": (tmp_path / "out.csv").stat().st_size}
