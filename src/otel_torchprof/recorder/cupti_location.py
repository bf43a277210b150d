"""Where libcupti may be: beside the torch that is installed, else with a CUDA of the system."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

# Newest first: one that is older than the driver works, but knows less of what it records.
_CUDA_MAJORS = (13, 12)
# Of the wheels: CUDA 13 has one folder for all its parts, CUDA 12 one a part.
_WHEEL_FOLDERS = {13: ("nvidia/cu13/lib",), 12: ("nvidia/cuda_cupti/lib",)}
_SYSTEM_CUDA = "/usr/local/cuda"
_SYSTEM_FOLDERS = ("extras/CUPTI/lib64", "lib64")


def cupti_paths(
    cuda_version: str | None,
    environ: Mapping[str, str] = os.environ,
    import_path: Iterable[str] | None = None,
) -> list[str]:
    """The places to load libcupti from, best first: files that are there, then names for the loader.

    A copy that the process has loaded already is better than any of them.

    Args:
        cuda_version: of torch, such as "13.0"; its major version comes first. None = not known.
        environ: where CUDA_HOME or CUDA_PATH may name a CUDA of the system.
        import_path: where wheels are; None takes `sys.path`.
    """
    majors = _in_order(cuda_version)
    folders = [Path(folder) for folder in (sys.path if import_path is None else import_path)]
    found = [*_of_wheels(folders, majors), *_of_system(environ, majors)]
    return [*dict.fromkeys(str(path) for path in found if path.is_file()), *map(_file_name, majors)]


def _in_order(cuda_version: str | None) -> list[int]:
    first = (cuda_version or "").partition(".")[0]
    return sorted(_CUDA_MAJORS, key=lambda major: str(major) != first)


def _of_wheels(folders: Iterable[Path], majors: Iterable[int]) -> Iterator[Path]:
    folders = list(folders)
    for major in majors:
        for folder in folders:
            for inside in _WHEEL_FOLDERS[major]:
                yield folder / inside / _file_name(major)


def _of_system(environ: Mapping[str, str], majors: Iterable[int]) -> Iterator[Path]:
    homes = [environ.get("CUDA_HOME"), environ.get("CUDA_PATH"), _SYSTEM_CUDA]
    for major in majors:
        for home in dict.fromkeys(filter(None, homes)):
            for inside in _SYSTEM_FOLDERS:
                yield Path(home) / inside / _file_name(major)


def _file_name(major: int) -> str:
    return f"libcupti.so.{major}"
