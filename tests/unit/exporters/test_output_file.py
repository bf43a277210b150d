"""Files appear whole or not at all."""

from __future__ import annotations

import gzip
import stat
from pathlib import Path

import pytest

from otel_torchprof.exporters.output_file import OutputFile


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_the_file_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    with OutputFile(path) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_in(tmp_path) == ["out.json"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), OutputFile(path) as file:  # in the middle of writing
        file.write(b"%d" % (1 // (file.size_bytes * 0)))
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["out.json"]


def test_gz_is_compressed(tmp_path: Path) -> None:
    with OutputFile(tmp_path / "out.json.gz") as file:
        file.write(b"x" * 100_000)
    data = (tmp_path / "out.json.gz").read_bytes()
    assert gzip.decompress(data) == b"x" * 100_000
    assert file.size_bytes == len(data) < 1_000


def test_what_cannot_be_written_says_which_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised, OutputFile(tmp_path / "missing" / "out.json"):
        pass
    assert raised.value.filename == str(tmp_path / "missing" / "out.json")


def test_a_directory_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out.json").mkdir()
    with pytest.raises(IsADirectoryError), OutputFile(tmp_path / "out.json") as file:
        file.write(b"x")
    assert names_in(tmp_path) == ["out.json"]
