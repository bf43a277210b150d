"""Stand-ins for the driver and for libcupti, from the sources of the C++ tests; they say nothing of CUPTI."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

NATIVE = Path(__file__).parents[2] / "native"
SOURCES = NATIVE / "tests" / "stand_in_cupti"

CUPTI_13_0 = 130_000
LAUNCH_KERNEL = 211
KINDS = ["kernel", "memcpy", "memset", "runtime", "driver", "sync"]


def load_stand_in(folder: Path) -> ctypes.CDLL:
    """Compiles both into `folder` and loads them under the names by which the recorder finds what is loaded.

    Before torch is imported: a CUDA build of it loads the libcupti that it brings along, and takes the
    stand-in only where that is there first.

    Returns the one for libcupti, with the functions of stand_in_cupti.h.

    Raises:
        OSError: there is no C++ compiler.
        RuntimeError: there is a libcupti, which the recorder would find.
    """
    if "libcupti.so.13" in Path("/proc/self/maps").read_text(encoding="utf-8"):
        raise RuntimeError("a libcupti is loaded already: load the stand-in before torch")
    libraries = []
    cuda = SOURCES / "stand_in_cuda.cpp"
    cupti = [source for source in sorted(SOURCES.glob("*.cpp")) if source != cuda]
    for name, sources in (("libcuda.so.1", [cuda]), ("libcupti.so.13", cupti)):
        library = folder / name
        subprocess.run(
            [os.environ.get("CXX", "c++"), "-std=c++20", "-O2", "-fPIC", "-shared", "-pthread",
             f"-I{NATIVE}", f"-I{SOURCES}", f"-Wl,-soname,{name},--default-symver", *sources, "-o", library],
            check=True,
        )  # fmt: skip
        libraries.append(ctypes.CDLL(str(library)))
    stand_in = libraries[-1]
    stand_in.stand_in_now_ns.restype = ctypes.c_uint64
    stand_in.stand_in_reset(CUPTI_13_0)
    return stand_in


def launch(
    stand_in: ctypes.CDLL, name: bytes, stream: int = 7, duration_ns: int = 900, device: int = 0
) -> None:
    """Launches a kernel that begins now, from the calling thread. The bytes of its name must live on."""
    correlation = stand_in.stand_in_call(LAUNCH_KERNEL, 0)
    start_ns = stand_in.stand_in_now_ns()
    times = ctypes.c_uint64(start_ns), ctypes.c_uint64(start_ns + duration_ns)
    stand_in.stand_in_kernel(name, correlation, device, stream, *times)
