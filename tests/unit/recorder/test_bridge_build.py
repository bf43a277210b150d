"""Compiling a bridge: which compiler, and what is said when it cannot be done."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import cast

import pytest

from otel_torchprof.recorder import torch_build
from otel_torchprof.recorder.bridge_build import (
    CompileError,
    compile_bridge,
    compile_library,
    find_compiler,
)
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


def torch_in(site_packages: Path, *, cuda: str | None) -> ModuleType:
    """What of an installed torch says how to compile for it."""
    (site_packages / "torch" / "lib").mkdir(parents=True)
    if cuda is not None:
        (site_packages / "torch" / "lib" / "libc10_cuda.so").touch()
    module = SimpleNamespace(
        __file__=str(site_packages / "torch" / "__init__.py"),
        __version__="9.9.9",
        _C=SimpleNamespace(_GLIBCXX_USE_CXX11_ABI=True),
        version=SimpleNamespace(debug=False, cuda=cuda),
    )
    return cast(ModuleType, module)


def cuda_headers(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


@pytest.mark.parametrize("has_compiler", [True, False])
def test_the_headers_of_cuda_come_with_its_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_compiler: bool
) -> None:
    names = ("cuda_runtime.h", "crt/host_config.h")
    # Of the wheels that torch depends on, only Triton's has what the compiler brings along.
    of_triton = cuda_headers(tmp_path / "triton" / "backends" / "nvidia" / "include", *names)
    headers = cuda_headers(tmp_path / "nvidia" / "cu13" / "include", *names[: 2 if has_compiler else 1])
    for home in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(home, str(tmp_path / "nowhere"))
    monkeypatch.setattr(torch_build, "_SYSTEM_CUDA", tmp_path / "nowhere")
    build = TorchBuild.of(torch_in(tmp_path, cuda="13.0"))
    of_both = (headers,) if has_compiler else (headers, of_triton)
    assert build.include_dirs == (tmp_path / "torch" / "include", *of_both)
    assert build.libraries == ("torch_cpu", "c10", "c10_cuda")
    assert "TORCHPROF_WITH_CUDA" in build.definitions


@pytest.mark.parametrize("name", ["cuda_runtime.h", "crt/host_config.h"])
def test_some_headers_of_cuda_are_not_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    home = tmp_path / "cuda"
    cuda_headers(home / "include", name)
    monkeypatch.setenv("CUDA_HOME", str(home))
    monkeypatch.delenv("CUDA_PATH", raising=False)
    monkeypatch.setattr(torch_build, "_SYSTEM_CUDA", tmp_path / "nowhere")
    build = TorchBuild.of(torch_in(tmp_path, cuda="13.0"))
    assert build.cuda_include_dirs == ()
    assert "TORCHPROF_WITH_CUDA" not in build.definitions


def test_the_name_tells_whether_there_were_headers_of_cuda(tmp_path: Path) -> None:
    native = Path(__file__).parents[3] / "native"
    build = TorchBuild("9.9.9", True, False, "x86_64", tmp_path, tmp_path)
    with_cuda = replace(build, cuda_include_dirs=(tmp_path,))
    assert build.bridge_name(native) != with_cuda.bridge_name(native)


def test_a_torch_without_cuda_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cuda_headers(tmp_path / "cuda" / "include", "cuda_runtime.h", "crt/host_config.h")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    build = TorchBuild.of(torch_in(tmp_path, cuda=None))
    assert build.cuda_include_dirs == ()
    assert build.libraries == ("torch_cpu", "c10")
    assert "TORCHPROF_WITH_CUDA" not in build.definitions


def test_where_cuda_does_not_compile_the_rest_does(build: TorchBuild, tmp_path: Path) -> None:
    refuse_cuda = 'case "$*" in *-DTORCHPROF_WITH_CUDA*) exit 1;; esac'
    script = f'{refuse_cuda}\nfor last; do :; done\nprintf "%s" "$*" > "$last"'
    make_compiler(tmp_path, "c++", script)
    output = tmp_path / "bridge.so"
    with_cuda = replace(build, cuda_include_dirs=(tmp_path / "cuda",))
    compile_bridge(with_cuda, Path("sources"), output, {"PATH": f"{tmp_path}:{os.defpath}"})
    assert "sources/torch/memory.cpp" in output.read_text().split()
    make_compiler(tmp_path, "c++", "exit 1")
    with pytest.raises(CompileError):
        compile_bridge(with_cuda, Path("sources"), output, {"PATH": f"{tmp_path}:{os.defpath}"})


def test_all_of_the_bridge_is_compiled() -> None:
    native = Path(__file__).parents[3] / "native"
    assert {f"torch/{path.name}" for path in (native / "torch").glob("*.cpp")} == set(BRIDGE_UNITS)
    headers = {f"torch/{path.name}" for path in (native / "torch").glob("*.h")}
    assert headers | {"core/inputs_encoding.h"} == set(BRIDGE_HEADERS)
