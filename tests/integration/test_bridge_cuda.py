"""The part of a bridge for CUDA compiles against the headers of torch and CUDA; it runs on a GPU only."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import torch

from otel_torchprof.recorder.bridge_build import find_compiler
from otel_torchprof.recorder.torch_build import TorchBuild, cuda_header_dirs
from tests.support.required_tools import skip_or_fail

NATIVE = Path(__file__).parents[2] / "native"


def test_what_follows_the_allocator_of_cuda_compiles(tmp_path: Path) -> None:
    places = cuda_header_dirs(Path(sysconfig.get_path("purelib")))
    if not places:
        skip_or_fail("no headers of CUDA: pip install nvidia-cuda-runtime nvidia-cuda-crt")
    # The one header that a torch built without CUDA has not: building it with CUDA writes it.
    written = tmp_path / "c10" / "cuda" / "impl" / "cuda_cmake_macros.h"
    written.parent.mkdir(parents=True)
    written.write_text("#pragma once\n#define C10_CUDA_BUILD_SHARED_LIBS\n")
    compiler = find_compiler(os.environ)
    assert compiler is not None
    build = TorchBuild.of(torch)
    includes = [option for place in (tmp_path, build.include_dir, *places) for option in ("-isystem", place)]
    definitions = [f"-D{name}" for name in (*build.definitions, "TORCHPROF_WITH_CUDA")]
    done = subprocess.run(
        [*compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", *definitions,
         "-I", NATIVE, *includes, NATIVE / "torch" / "device_memory.cpp"],
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
