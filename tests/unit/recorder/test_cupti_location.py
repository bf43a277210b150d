"""Where libcupti is looked for: files that are there, those of torch's own CUDA first."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_torchprof.recorder import cupti_location
from otel_torchprof.recorder.cupti_location import cupti_paths


def touch(path: Path) -> str:
    path.parent.mkdir(parents=True)
    path.touch()
    return str(path)


@pytest.fixture(autouse=True)
def _no_cuda_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cupti_location, "_SYSTEM_CUDA", str(tmp_path / "usr"))


def test_without_any_there_are_the_names_that_the_loader_knows(tmp_path: Path) -> None:
    assert cupti_paths(None, {}, [str(tmp_path)]) == ["libcupti.so.13", "libcupti.so.12"]
    assert cupti_paths("12.8", {}, []) == ["libcupti.so.12", "libcupti.so.13"]


def test_wheels_come_before_the_system_and_torchs_cuda_first(tmp_path: Path) -> None:
    site = tmp_path / "site"
    new = touch(site / "nvidia" / "cu13" / "lib" / "libcupti.so.13")
    old = touch(site / "nvidia" / "cuda_cupti" / "lib" / "libcupti.so.12")
    system = touch(tmp_path / "cuda" / "extras" / "CUPTI" / "lib64" / "libcupti.so.12")
    default = touch(tmp_path / "usr" / "lib64" / "libcupti.so.13")
    environ = {"CUDA_HOME": str(tmp_path / "cuda"), "CUDA_PATH": str(tmp_path / "cuda")}
    paths = cupti_paths("12.6", environ, ["", str(site), str(site)])
    assert paths == [old, new, system, default, "libcupti.so.12", "libcupti.so.13"]
    assert cupti_paths("13.0", environ, [str(site)])[:2] == [new, old]
