"""What a torch bridge must match, and where that torch keeps its headers and libraries.

Needs nothing but the standard library and torch, because CMake also runs this file as a script:
`python torch_build.py` prints the files of a bridge for native/torch/CMakeLists.txt, a list a line, and
`python torch_build.py SOURCES` what compiling it needs, a value a line.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

# Relative to the folder of native sources; installed with the package in the same arrangement.
BRIDGE_UNITS = (
    "torch/bridge.cpp",
    "torch/counting.cpp",
    "torch/device_events.cpp",
    "torch/device_memory.cpp",
    "torch/inputs.cpp",
    "torch/memory.cpp",
    "torch/op_cost.cpp",
    "torch/switch_lock.cpp",
)
BRIDGE_HEADERS = (
    "torch/bridge_abi.h",
    "torch/core_table.h",
    "torch/counting.h",
    "torch/device_events.h",
    "torch/device_memory.h",
    "torch/inputs.h",
    "torch/memory.h",
    "torch/op_cost.h",
    "torch/switch_lock.h",
    "core/inputs_encoding.h",
)
_SYSTEM_CUDA = "/usr/local/cuda"


@dataclass(frozen=True)
class TorchBuild:
    """One exact build of torch: at::RecordFunction has no stable ABI, so a bridge fits only this one."""

    version: str
    cxx11_abi: bool
    debug: bool  # compiled without NDEBUG, which changes the layout of its classes
    machine: str
    include_dir: Path
    library_dir: Path
    cuda_include_dirs: tuple[Path, ...] = ()  # none: no CUDA in torch, or not all headers of it

    @classmethod
    def of(cls, torch: ModuleType) -> TorchBuild:
        """The build of an imported torch module."""
        root = Path(torch.__file__ or "").parent
        with_cuda = torch.version.cuda is not None and (root / "lib" / "libc10_cuda.so").is_file()
        return cls(
            version=str(torch.__version__),
            cxx11_abi=bool(torch._C._GLIBCXX_USE_CXX11_ABI),
            debug=bool(torch.version.debug),
            machine=platform.machine(),
            include_dir=root / "include",
            library_dir=root / "lib",
            cuda_include_dirs=cuda_header_dirs(root.parent) if with_cuda else (),
        )

    @property
    def key(self) -> str:
        """The build as part of a file name."""
        version = re.sub(r"[^A-Za-z0-9.+]", "_", self.version)
        kind = "-debug" if self.debug else ""
        return f"torch-{version}{kind}-cxx11abi{int(self.cxx11_abi)}-{self.machine}"

    @property
    def definitions(self) -> tuple[str, ...]:
        """What a bridge must be compiled with so that it sees the classes this torch was compiled with."""
        abi = f"_GLIBCXX_USE_CXX11_ABI={int(self.cxx11_abi)}"
        named = f'TORCHPROF_TORCH_VERSION="{self.version}"'
        optimized = () if self.debug else ("NDEBUG",)
        cuda = ("TORCHPROF_WITH_CUDA",) if self.cuda_include_dirs else ()
        return (abi, named, *optimized, *cuda)

    @property
    def include_dirs(self) -> tuple[Path, ...]:
        """Where the headers are that a bridge needs."""
        return (self.include_dir, *self.cuda_include_dirs)

    @property
    def libraries(self) -> tuple[str, ...]:
        """The libraries in `library_dir` that a bridge needs."""
        return ("torch_cpu", "c10", *(["c10_cuda"] if self.cuda_include_dirs else []))

    def bridge_name(self, sources_dir: Path) -> str:
        """File name of the bridge made for this torch from the sources in `sources_dir`.

        It is another one with CUDA than without: where headers of CUDA arrive later, a bridge is made anew.

        Raises:
            OSError: a source cannot be read.
        """
        digest = hashlib.sha256(" ".join(self.definitions).encode())
        for name in (*BRIDGE_UNITS, *BRIDGE_HEADERS):
            content = (sources_dir / name).read_bytes()
            digest.update(f"{name} {len(content)}\n".encode())
            digest.update(content)
        return f"bridge-{self.key}-{digest.hexdigest()[:16]}.so"


def cuda_header_dirs(site_packages: Path) -> tuple[Path, ...]:
    """Folders that together have what c10's headers of CUDA include: the runtime's, and the compiler's `crt`.

    The wheels that torch depends on have no `crt`. Triton, which it depends on too, has a copy of its own.
    """
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    places = [
        *sorted(site_packages.glob("nvidia/*/include")),
        *(Path(home, "include") for home in (*homes, _SYSTEM_CUDA)),
        site_packages / "triton" / "backends" / "nvidia" / "include",
    ]
    found: list[Path] = []
    for header in ("cuda_runtime.h", "crt/host_config.h"):
        place = next((place for place in (*found, *places) if (place / header).is_file()), None)
        if place is None:
            return ()
        found.append(place)
    return tuple(dict.fromkeys(found))


def _print_for_cmake(sources_dir: Path) -> None:
    import torch

    build = TorchBuild.of(torch)
    lists = ("|".join(map(str, build.include_dirs)), "|".join(build.libraries))
    print(*lists, build.library_dir, build.bridge_name(sources_dir), *build.definitions, sep="\n")


def _print_files() -> None:
    print("|".join(BRIDGE_UNITS), "|".join(BRIDGE_HEADERS), sep="\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        _print_for_cmake(Path(sys.argv[1]))
    else:
        _print_files()
