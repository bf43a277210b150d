"""Compiling a torch bridge with the C++ compiler of this machine."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from otel_torchprof.recorder.torch_build import BRIDGE_UNITS, TorchBuild

COMPILE_TIMEOUT_S = 120.0
_COMPILERS = ("c++", "g++", "clang++")


class CompileError(Exception):
    """No compiler, or one that failed; the message is one line with the reason."""


def find_compiler(environ: Mapping[str, str]) -> list[str] | None:
    """The command that starts the C++ compiler: `CXX` when set (arguments allowed), else the first found."""
    if configured := shlex.split(environ.get("CXX", "")):
        return configured if shutil.which(configured[0], path=environ.get("PATH")) else None
    for name in _COMPILERS:
        if found := shutil.which(name, path=environ.get("PATH")):
            return [found]
    return None


def compile_library(
    build: TorchBuild,
    units: Sequence[Path],
    sources_dir: Path,
    output: Path,
    *,
    environ: Mapping[str, str],
    timeout_s: float = COMPILE_TIMEOUT_S,
) -> None:
    """Compiles `units` against `build` into the shared library `output`, which appears whole or not at all.

    Args:
        build: the torch to compile for; its headers must be installed.
        units: the C++ files, compiled as one: what takes time are the headers of torch, which all include.
        sources_dir: the folder their quoted includes are relative to.
        output: the file to make or replace; its folder must exist.
        environ: where `CXX` and `PATH` are read.
        timeout_s: the longest the compiler may take.

    Raises:
        CompileError: there is no compiler, it failed, or it took too long.
        OSError: the folder of `output` cannot be written.
    """
    compiler = find_compiler(environ)
    if compiler is None:
        asked = environ.get("CXX") or ", ".join(_COMPILERS)
        raise CompileError(f"no C++ compiler found (looked for {asked})")
    if not (build.include_dir / "ATen" / "record_function.h").is_file():
        raise CompileError(f"this torch has no C++ headers in {build.include_dir}")
    with tempfile.TemporaryDirectory(prefix=".build-", dir=output.parent) as scratch:
        made = Path(scratch) / output.name
        command = [
            *compiler,
            *("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden"),
            *(f"-D{definition}" for definition in build.definitions),
            *("-I", str(sources_dir)),
            *(option for place in build.include_dirs for option in ("-isystem", str(place))),
            *(option for unit in units for option in ("-include", str(unit))),
            *("-x", "c++", os.devnull),
            *("-L", str(build.library_dir), *(f"-l{library}" for library in build.libraries)),
            # Callbacks may still run when the process unloads its libraries.
            *("-Wl,-z,nodelete", "-o", str(made)),
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env={**environ, "LC_ALL": "C"},
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CompileError(f"{compiler[0]} took longer than {timeout_s:.0f} s") from None
        except OSError as error:
            raise CompileError(f"cannot run {compiler[0]}: {error.strerror}") from None
        if done.returncode != 0:
            raise CompileError(f"{compiler[0]} failed: {_first_error(done.stdout)}")
        made.chmod(0o700)
        made.replace(output)


def compile_bridge(build: TorchBuild, sources_dir: Path, output: Path, environ: Mapping[str, str]) -> None:
    """Compiles the bridge for `build`, without CUDA where that part does not compile.

    Raises:
        CompileError, OSError: as `compile_library`.
    """
    units = [sources_dir / name for name in BRIDGE_UNITS]
    try:
        compile_library(build, units, sources_dir, output, environ=environ)
    except CompileError:
        if not build.cuda_include_dirs:
            raise
        compile_library(replace(build, cuda_include_dirs=()), units, sources_dir, output, environ=environ)


def _first_error(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    return (errors or lines or ["no output"])[0][:300]
