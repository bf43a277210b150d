"""The C++ tests, built with warnings as errors, run plain and under the sanitizers."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.support.required_tools import skip_or_fail

ROOT = Path(__file__).parents[2]
TOOLS = Path(sysconfig.get_path("scripts"))
JOBS = str(min(2, os.cpu_count() or 1))


def run(*command: str | Path, **environ: str) -> str:
    """Runs a step of the build or the tests, and returns its whole output, shown only when it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, **environ},
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout[-20_000:]}"
    return done.stdout


def compiles(flags: list[str], source: str, tmp_path: Path) -> bool:
    """Whether the machine's compiler makes a program of `source`."""
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-std=c++20", *flags, "-x", "c++", "-", "-o", str(tmp_path / "probe")]
    return subprocess.run(command, input=source, text=True, capture_output=True, check=False).returncode == 0


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("sanitizers", "targets"),
    [
        ("", ["recorder_tests"]),  # what sanitizers change: memory held, forks, barriers
        ("address,undefined", ["recorder_tests", "model_tests"]),
        ("thread", ["recorder_tests"]),
    ],
    ids=["plain", "asan-ubsan", "tsan"],
)
def test_the_cpp_tests_pass(sanitizers: str, targets: list[str], tmp_path: Path) -> None:
    if not compiles([], "#if __has_include(<doctest/doctest.h>)\nint main() {}\n#endif", tmp_path):
        skip_or_fail("no doctest/doctest.h: apt-get install doctest-dev")
    if sanitizers and not compiles([f"-fsanitize={sanitizers}"], "int main() {}", tmp_path):
        skip_or_fail(f"the compiler has no -fsanitize={sanitizers}: install its sanitizer libraries")
    build = ROOT / "build" / f"tests-{sanitizers.replace(',', '-') or 'plain'}"
    run(
        *(TOOLS / "cmake", "-S", ROOT, "-B", build, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={TOOLS / 'ninja'}"),
        *("-DTORCHPROF_PYTHON=OFF", "-DTORCHPROF_TESTS=ON", "-DTORCHPROF_WERROR=ON"),
        *(f"-DTORCHPROF_SANITIZE={sanitizers}", f"-DPython_EXECUTABLE={sys.executable}"),
        f"-DTORCHPROF_CUPTI_ROOT={Path(sysconfig.get_path('purelib')) / 'nvidia' / 'cu13'}",
    )
    run(TOOLS / "cmake", "--build", build, "--parallel", JOBS, "--target", *targets)
    run(
        *(TOOLS / "ctest", "--test-dir", build, "--output-on-failure", "--no-tests=error"),
        *("--tests-regex", f"^({'|'.join(targets)})$"),
        TSAN_OPTIONS="halt_on_error=1",
        UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1",
    )
    if "model_tests" in targets and platform.machine() == "x86_64":
        listed = run(build / "native" / "tests" / "model_tests", "--list-test-cases")
        if "NVIDIA's libcupti answers without a driver" not in listed:
            skip_or_fail("no libcupti 13.0 with headers to ask: pip install nvidia-cuda-cupti==13.0.85")
