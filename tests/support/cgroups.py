"""Folders of files that look like the control groups of this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_MOUNT = "30 25 0:26 {root} {point} rw,nosuid - {kind} {kind} rw,{options}\n"


def lay_cgroups(
    root: Path,
    groups: Mapping[str, Mapping[str, str]],
    *,
    own: str = "/",
    version: int = 2,
    mount_root: str = "/",
    used_bytes: int = 0,
    of_files_bytes: tuple[int, int] = (0, 0),
) -> Path:
    """Lay them below `root`, as `CgroupMemory(root)` reads them; returns where the highest one is.

    Args:
        root: stands for `/`.
        groups: by path below the highest one, their files beside those of usage.
        own: the path of this process's group, as its mount's file system has it.
        version: of control groups, 1 or 2.
        mount_root: the group that is seen as the highest one.
        used_bytes: by each group, with what is kept of files.
        of_files_bytes: kept of files, active and inactive.
    """
    point = "/sys/fs/cgroup/memory" if version == 1 else "/sys/fs/cgroup"
    process = root / "proc/self"
    process.mkdir(parents=True, exist_ok=True)
    kind, options = ("cgroup", "memory") if version == 1 else ("cgroup2", "nsdelegate")
    (process / "mountinfo").write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "29 25 0:25 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        + _MOUNT.format(root=mount_root, point=point, kind=kind, options=options)
    )
    (process / "cgroup").write_text(
        f"3:cpu,cpuacct:/elsewhere\n2:memory:{own}\n0::/elsewhere\n" if version == 1 else f"0::{own}\n"
    )
    top = root / point.lstrip("/")
    prefix = "total_" if version == 1 else ""
    usage = "memory.usage_in_bytes" if version == 1 else "memory.current"
    active, inactive = of_files_bytes
    stat = f"cache 5\n{prefix}inactive_file {inactive}\nrss 7\n{prefix}active_file {active}\n"
    for path, files in groups.items():
        group = top / path
        group.mkdir(parents=True, exist_ok=True)
        for name, content in {usage: str(used_bytes), "memory.stat": stat, **files}.items():
            (group / name).write_text(content + "\n")
    return top
