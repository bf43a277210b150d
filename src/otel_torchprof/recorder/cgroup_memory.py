"""What the control groups of this process, a container's or a job's, let it have of the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

from otel_torchprof.recorder.mount_table import Mount, read_mounts

# Version 1 says "no limit" by the largest number of pages that it can count, times the size of a page.
_NO_LIMIT_BYTES = 1 << 62


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """A limit on the memory of this process and of all others in a control group.

    Attributes:
        group: the folder of the control group.
        limit_bytes: of memory, above which the kernel ends or slows processes.
        used_bytes: by all of them, without what the kernel keeps of files, which gives way.
    """

    group: Path
    limit_bytes: int
    used_bytes: int

    @property
    def left_bytes(self) -> int:
        """What can still be used."""
        return max(self.limit_bytes - self.used_bytes, 0)


@dataclass(frozen=True, slots=True)
class _Files:
    """The files of one version of control groups."""

    limits: tuple[str, ...]
    usage: str
    kept_of_files: tuple[bytes, bytes]


_V1 = _Files(
    ("memory.limit_in_bytes",), "memory.usage_in_bytes", (b"total_active_file", b"total_inactive_file")
)
_V2 = _Files(("memory.max", "memory.high"), "memory.current", (b"active_file", b"inactive_file"))


class CgroupMemory:
    """Reads the limits of the control groups that this process is in; nothing of it raises.

    Args:
        root: where `/proc` and what is mounted are found.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    def tightest_limit(self) -> MemoryLimit | None:
        """Of the process's own group and those above it, the limit that leaves least; None without any."""
        limits = [limit for group, files in self._groups for limit in _limits_of(group, files)]
        return min(limits, key=lambda limit: limit.left_bytes, default=None)

    @cached_property
    def _groups(self) -> list[tuple[Path, _Files]]:
        try:
            return list(self._find_groups())
        except (OSError, ValueError):
            return []

    def _find_groups(self) -> Iterator[tuple[Path, _Files]]:
        """From the process's own group up to the highest that is seen from here."""
        paths: dict[bool, str] = {}  # by whether it is of version 1
        for line in (self._root / "proc/self/cgroup").read_text(errors="surrogateescape").splitlines():
            _number, controllers, path = line.split(":", 2)
            if not controllers or "memory" in controllers.split(","):
                paths[bool(controllers)] = path
        for mount in read_mounts(self._root / "proc/self/mountinfo"):
            is_v1 = mount.kind == "cgroup" and "memory" in mount.options
            if (is_v1 or mount.kind == "cgroup2") and is_v1 in paths:
                top = self._root / mount.point.lstrip("/")
                own = top / _path_below(mount, paths[is_v1])
                for group in (own, *own.parents):
                    yield group, _V1 if is_v1 else _V2
                    if group == top:
                        break


def _path_below(mount: Mount, path: str) -> PurePosixPath:
    """The path of a group below the mount: none where the mount shows another part of the tree."""
    parts = PurePosixPath(path)
    if not parts.is_relative_to(mount.root) or ".." in parts.parts:
        return PurePosixPath()
    return parts.relative_to(mount.root)


def _limits_of(group: Path, files: _Files) -> Iterator[MemoryLimit]:
    try:
        usage_bytes = int((group / files.usage).read_bytes())
        of_files_bytes = 0
        for line in (group / "memory.stat").read_bytes().splitlines():
            name, _, value = line.partition(b" ")
            if name in files.kept_of_files:
                of_files_bytes += int(value)
    except (OSError, ValueError):
        return  # the root of all groups, which has no such files
    for file in files.limits:
        try:
            limit_bytes = int((group / file).read_bytes())
        except (OSError, ValueError):
            continue  # "max"
        if limit_bytes < _NO_LIMIT_BYTES:
            yield MemoryLimit(group, limit_bytes, max(usage_bytes - of_files_bytes, 0))
