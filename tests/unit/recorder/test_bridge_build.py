"""Compiling a bridge: which compiler, and what is said when it cannot be done."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from otel_torchprof.recorder.bridge_build import CompileError, compile_library, find_compiler
from otel_torchprof.recorder.torch_build import BRIDGE_HEADERS, BRIDGE_UNITS, TorchBuild


@pytest.fixture
def build(tmp_path: Path) -> TorchBuild:
    """A torch whose headers are there, as far as anyone looks before compiling."""
    header = tmp_path / "torch" / "include" / "ATen" / "record_function.h"
    header.parent.mkdir(parents=True)
    header.touch()
    return TorchBuild("9.9.9", True, False, "x86_64", header.parents[1], tmp_path / "torch" / "lib")


def make_compiler(folder: Path, name: str, script: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def compile_with(build: TorchBuild, output: Path, environ: dict[str, str], timeout_s: float = 60) -> None:
    compile_library(build, [Path("unit.cpp")], Path(), output, environ=environ, timeout_s=timeout_s)


def test_the_first_compiler_on_the_path(tmp_path: Path) -> None:
    environ = {"PATH": str(tmp_path)}
    assert find_compiler(environ) is None
    clang = make_compiler(tmp_path, "clang++", "")
    assert find_compiler(environ) == [str(clang)]
    gcc = make_compiler(tmp_path, "g++", "")
    assert find_compiler(environ) == [str(gcc)]


def test_cxx_names_the_compiler_and_its_arguments(tmp_path: Path) -> None:
    make_compiler(tmp_path, "g++", "")
    make_compiler(tmp_path, "ccache", "")
    environ = {"PATH": str(tmp_path), "CXX": "ccache g++ -march=native"}
    assert find_compiler(environ) == ["ccache", "g++", "-march=native"]
    assert find_compiler({**environ, "CXX": "no-such-compiler"}) is None


def test_no_compiler(build: TorchBuild, tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"no C\+\+ compiler found \(looked for c\+\+, g\+\+, clang\+\+\)"):
        compile_with(build, tmp_path / "out.so", {"PATH": ""})


def test_no_headers(build: TorchBuild, tmp_path: Path) -> None:
    (build.include_dir / "ATen" / "record_function.h").unlink()
    make_compiler(tmp_path, "c++", "")
    with pytest.raises(CompileError, match=r"^this torch has no C\+\+ headers in .*include$"):
        compile_with(build, tmp_path / "out.so", {"PATH": str(tmp_path)})


def test_a_failing_compiler_is_reported_by_its_first_error(build: TorchBuild, tmp_path: Path) -> None:
    script = "echo 'In file included from x.h:1:'; echo 'x.h:7: error: no type A' >&2; echo done; exit 1"
    compiler = make_compiler(tmp_path, "c++", script)
    output = tmp_path / "out.so"
    with pytest.raises(CompileError, match=rf"^{re.escape(str(compiler))} failed: x\.h:7: error: no type A$"):
        compile_with(build, output, {"PATH": f"{tmp_path}:{os.defpath}"})
    assert sorted(tmp_path.iterdir()) == [compiler, tmp_path / "torch"]


def test_a_hanging_compiler_is_given_up(build: TorchBuild, tmp_path: Path) -> None:
    make_compiler(tmp_path, "c++", "exec sleep 600")
    with pytest.raises(CompileError, match=r"took longer than 0 s$"):
        compile_with(build, tmp_path / "out.so", {"PATH": f"{tmp_path}:{os.defpath}"}, timeout_s=0.1)


def test_the_library_appears_whole(build: TorchBuild, tmp_path: Path) -> None:
    output = tmp_path / "out" / "bridge.so"
    output.parent.mkdir()
    # Writes what the compiler was asked to write, while the output folder holds no such file yet.
    script = f'test ! -e "{output}" || exit 1\nfor last; do :; done\nprintf "%s" "$*" > "$last"'
    make_compiler(tmp_path, "c++", script)
    compile_with(build, output, {"PATH": f"{tmp_path}:{os.defpath}"})
    assert list(output.parent.iterdir()) == [output]
    arguments = output.read_text().split()
    assert {"-shared", "-fPIC", "-fvisibility=hidden", "-D_GLIBCXX_USE_CXX11_ABI=1"} <= set(arguments)
    assert '-DTORCHPROF_TORCH_VERSION="9.9.9"' in arguments
    # Without it the headers describe classes that are larger than those of a torch that was released.
    assert "-DNDEBUG" in arguments


def test_the_name_tells_torch_abi_machine_and_sources(tmp_path: Path) -> None:
    for name in (*BRIDGE_UNITS, *BRIDGE_HEADERS):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    build = TorchBuild("2.9.0a0+git/1", False, False, "aarch64", tmp_path, tmp_path)
    before = build.bridge_name(tmp_path)
    assert before.startswith("bridge-torch-2.9.0a0+git_1-cxx11abi0-aarch64-")
    assert before.endswith(".so")
    (tmp_path / "torch" / "inputs.h").write_text("// changed")
    assert build.bridge_name(tmp_path) != before
