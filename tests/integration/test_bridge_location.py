"""Finding the bridge for the torch at hand: prebuilt, cached, compiled, or the reason why there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from otel_torchprof._native import core
from otel_torchprof.recorder import bridge_location
from otel_torchprof.recorder.bridge import (
    Bridge,
    BridgeStatus,
    BridgeUnavailable,
    bridge_status,
    build_bridge,
    load_bridge,
)
from otel_torchprof.recorder.bridge_location import installed_torch, locate_bridge

INSTALLED = Path(core.__file__).parent


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package without a prebuilt bridge, an empty cache, and no compiler."""
    load_bridge()  # the one of this process, as it is installed
    package = tmp_path / "package"
    package.mkdir()
    shutil.copytree(INSTALLED / "bridge", package / "bridge")
    monkeypatch.setattr(bridge_location, "_package_dir", lambda: package)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", "no-such-compiler")
    return package


@pytest.fixture
def compiler(tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A compiler that takes no time: it copies the bridge in use, and notes that it was asked."""
    path = tmp_path / "fast-c++"
    calls = tmp_path / "calls"
    path.write_text(
        f'#!/bin/sh\necho called >> "{calls}"\nfor last; do :; done\ncp "{load_bridge().path}" "$last"\n'
    )
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    return calls


def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "otel-torchprof"


def loads(path: Path) -> bool:
    bridge = Bridge(path, torch.__version__, core.core_table_address())
    bridge.disable(0)
    return bridge.path == path


def test_a_prebuilt_bridge_goes_first(package: Path, compiler: Path) -> None:
    build = installed_torch()
    prebuilt = package / build.bridge_name(package / "bridge")
    shutil.copy(load_bridge().path, prebuilt)
    assert locate_bridge(build) == prebuilt
    assert bridge_status() == BridgeStatus(True, "prebuilt", prebuilt, torch.__version__, "")
    assert not compiler.exists()


def test_compiled_on_first_use_then_taken_from_the_cache(tmp_path: Path, compiler: Path) -> None:
    assert bridge_status() == BridgeStatus(True, "to be compiled", None, torch.__version__, "")
    path = locate_bridge(installed_torch())
    assert path.parent == cache(tmp_path)
    assert path.stat().st_mode & 0o777 == 0o700
    assert loads(path)
    assert locate_bridge(installed_torch()) == path
    assert bridge_status() == BridgeStatus(True, "cached", path, torch.__version__, "")
    assert compiler.read_text().splitlines() == ["called"]


def test_ranks_that_start_together_compile_once(tmp_path: Path, compiler: Path) -> None:
    build = installed_torch()
    with ThreadPoolExecutor(8) as ranks:
        paths = set(ranks.map(locate_bridge, [build] * 8))
    assert len(paths) == 1
    assert compiler.read_text().splitlines() == ["called"]
    assert sorted(entry.name for entry in cache(tmp_path).iterdir()) == [".lock", paths.pop().name]


def test_changed_sources_need_another_bridge(package: Path, compiler: Path) -> None:
    first = locate_bridge(installed_torch())
    (package / "bridge" / "torch" / "inputs.cpp").write_text("// another release")
    assert locate_bridge(installed_torch()) != first
    assert len(compiler.read_text().splitlines()) == 2


def test_built_ahead_of_time(tmp_path: Path, package: Path, compiler: Path) -> None:
    cached = build_bridge()
    assert cached.parent == cache(tmp_path)
    build_bridge()  # again: it is made again
    assert len(compiler.read_text().splitlines()) == 2
    for_everyone = build_bridge(in_package=True)
    assert for_everyone.parent == package
    assert for_everyone.stat().st_mode & 0o777 == 0o755
    assert bridge_status().path == for_everyone


@pytest.mark.usefixtures("package")
def test_without_a_compiler_the_reason_and_the_way_out() -> None:
    way_out = (
        "install a C++ compiler or set CXX, or run `otel-torchprof build` where there is one; "
        'profile(fallback="torch") records without a bridge'
    )
    with pytest.raises(BridgeUnavailable) as unavailable:
        locate_bridge(installed_torch())
    assert str(unavailable.value) == (
        f"no bridge for torch {torch.__version__}: "
        f"no C++ compiler found (looked for no-such-compiler): {way_out}"
    )
    status = bridge_status()
    assert not status.available
    assert status.reason.endswith(way_out)


def test_a_cache_that_others_can_write_is_not_loaded_from(tmp_path: Path, compiler: Path) -> None:
    path = locate_bridge(installed_torch())
    path.chmod(0o777)
    with pytest.raises(
        BridgeUnavailable, match=r"is not safe to load from: .* can be written by other users"
    ):
        locate_bridge(installed_torch())
    assert "delete it" in bridge_status().reason
    assert cache(tmp_path) in path.parents
    assert compiler.read_text().splitlines() == ["called"]


def test_no_place_for_a_cache(tmp_path: Path, compiler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BridgeUnavailable, match=r"no cache to make one in .*: set XDG_CACHE_HOME"):
        locate_bridge(installed_torch())
    assert not compiler.exists()


def test_sources_that_are_missing(package: Path) -> None:
    (package / "bridge" / "torch" / "inputs.h").unlink()
    with pytest.raises(BridgeUnavailable, match="reinstall otel-torchprof"):
        locate_bridge(installed_torch())


def test_a_library_that_does_not_load(tmp_path: Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"\x7fELF, cut off")
    with pytest.raises(BridgeUnavailable, match=r"broken\.so does not load .*delete it"):
        Bridge(broken, torch.__version__, core.core_table_address())


def test_a_bridge_for_another_torch(tmp_path: Path) -> None:
    copy = tmp_path / "copy.so"
    shutil.copy(load_bridge().path, copy)
    made_for = re.escape(torch.__version__)
    with pytest.raises(BridgeUnavailable, match=rf"is for torch {made_for}, not 1\.13\.0: delete it"):
        Bridge(copy, "1.13.0", core.core_table_address())


def test_the_real_compiler_makes_a_bridge_that_records(tmp_path: Path) -> None:
    """As on a machine whose torch is not the one the wheel was built against."""
    script = """
import shutil, sys
from pathlib import Path
from otel_torchprof._native import core
from otel_torchprof.recorder import bridge_location
package = Path(sys.argv[1])
shutil.copytree(Path(core.__file__).parent / "bridge", package / "bridge")
bridge_location._package_dir = lambda: package
import torch
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
capture = Capture(options=CaptureOptions(record_shapes=True))
capture.start()
torch.ones(2, 3)
recording = capture.stop()
print([recording.event_name(row) for row in range(len(recording))])
print(bridge_location.bridge_status().source)
"""
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-c", script, str(tmp_path / "package")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, env=environ, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["['aten::ones', 'aten::empty', 'aten::fill_']", "cached"]
