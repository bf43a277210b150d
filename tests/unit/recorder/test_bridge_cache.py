"""The cache of compiled bridges loads nothing that another user could have written."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from otel_torchprof.recorder.bridge_cache import UntrustedCache, build_lock, cache_dir, find, prepare


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "cache" / "otel-torchprof"
    prepare(directory)
    return directory


def test_the_folder_is_ours_alone(directory: Path) -> None:
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    prepare(directory)  # again


def test_cache_dir_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache_dir({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "otel-torchprof"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_dir({}) == tmp_path / ".cache" / "otel-torchprof"
    # The XDG specification: a relative path is invalid and ignored.
    assert cache_dir({"XDG_CACHE_HOME": "cache"}) == tmp_path / ".cache" / "otel-torchprof"


def test_find(directory: Path) -> None:
    assert find(directory, "bridge.so") is None
    (directory / "bridge.so").touch(mode=0o700)
    assert find(directory, "bridge.so") == directory / "bridge.so"
    assert find(directory / "not made yet", "bridge.so") is None


@pytest.mark.parametrize("mode", [0o720, 0o702])
def test_a_file_others_can_write_is_refused(directory: Path, mode: int) -> None:
    file = directory / "bridge.so"
    file.touch()
    file.chmod(mode)
    with pytest.raises(UntrustedCache, match=rf"bridge\.so can be written by other users \(mode {mode:o}\)"):
        find(directory, "bridge.so")


def test_a_folder_others_can_write_is_refused(directory: Path) -> None:
    (directory / "bridge.so").touch(mode=0o700)
    directory.chmod(0o777)
    with pytest.raises(UntrustedCache, match="can be written by other users"):
        find(directory, "bridge.so")
    with pytest.raises(UntrustedCache, match="can be written by other users"):
        prepare(directory)


def test_links_are_refused(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.so").touch(mode=0o700)
    (directory / "bridge.so").symlink_to(tmp_path / "elsewhere.so")
    with pytest.raises(UntrustedCache, match="is a link or another kind of file"):
        find(directory, "bridge.so")
    (tmp_path / "linked").symlink_to(directory)
    with pytest.raises(UntrustedCache, match="is a link or another kind of file"):
        prepare(tmp_path / "linked")


def test_files_of_another_user_are_refused(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: directory.stat().st_uid + 1)
    with pytest.raises(UntrustedCache, match="belongs to user"):
        find(directory, "bridge.so")


def test_a_lock_that_is_never_free_is_waited_for_only_so_long(directory: Path) -> None:
    with build_lock(directory, timeout_s=5), build_lock(directory, timeout_s=0.01):
        entered = True
    assert entered
