"""The limits on memory that control groups set, of both versions, read off a folder of files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from otel_torchprof.recorder.cgroup_memory import CgroupMemory, MemoryLimit
from tests.support.cgroups import lay_cgroups

MIB = 1 << 20
V1_NO_LIMIT = str(2**63 - 4096)


def tightest(root: Path) -> MemoryLimit | None:
    return CgroupMemory(root).tightest_limit()


@pytest.mark.parametrize(
    ("version", "file", "none"),
    [(2, "memory.max", "max"), (2, "memory.high", "max"), (1, "memory.limit_in_bytes", V1_NO_LIMIT)],
)
def test_the_limit_of_the_own_group(version: int, file: str, none: str, tmp_path: Path) -> None:
    def lay(limit: str) -> Path:
        groups = {"": {file: none}, "job": {file: limit}}
        return lay_cgroups(
            tmp_path, groups, own="/job", version=version, used_bytes=50, of_files_bytes=(7, 3)
        )

    top = lay("100")
    found = tightest(tmp_path)
    # What is kept of files gives way.
    assert found == MemoryLimit(top / "job", limit_bytes=100, used_bytes=40)
    assert found.left_bytes == 60
    lay(none)
    assert tightest(tmp_path) is None


@pytest.mark.parametrize(
    ("groups", "group"),
    [
        ({"": "300", "a": "max", "a/b": "max"}, ""),
        ({"": "max", "a": "300", "a/b": "400"}, "a"),
        ({"": "400", "a": "400", "a/b": "300"}, "a/b"),
    ],
)
def test_groups_above_bound_it_too(groups: Mapping[str, str], group: str, tmp_path: Path) -> None:
    top = lay_cgroups(
        tmp_path, {path: {"memory.max": limit} for path, limit in groups.items()}, own="/a/b", used_bytes=100
    )
    assert tightest(tmp_path) == MemoryLimit(top / group, limit_bytes=300, used_bytes=100)


def test_it_is_what_is_left_that_counts(tmp_path: Path) -> None:
    top = lay_cgroups(tmp_path, {"": {"memory.max": "1000"}, "a": {"memory.max": "500"}}, own="/a")
    (top / "memory.current").write_text("900\n")
    found = tightest(tmp_path)
    assert found is not None
    assert (found.group, found.left_bytes) == (top, 100)
    (top / "memory.current").write_text("1200\n")  # for a moment it may
    found = tightest(tmp_path)
    assert found is not None
    assert found.left_bytes == 0


def test_a_limit_that_changes_is_seen(tmp_path: Path) -> None:
    cgroups = CgroupMemory(tmp_path)
    for limit in (100, 200):
        lay_cgroups(tmp_path, {"": {"memory.max": str(limit)}})
        found = cgroups.tightest_limit()
        assert found is not None
        assert found.limit_bytes == limit


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    ("own", "mount_root"),
    [
        ("/", "/"),  # a container with a namespace of control groups
        ("/docker/a1b2", "/docker/a1b2"),  # one without
        ("/../../elsewhere", "/"),  # moved out of its namespace
        ("/system.slice", "/docker/a1b2"),  # the mount shows another part of the tree
    ],
)
def test_containers_see_their_own_group_as_the_highest(
    own: str, mount_root: str, version: int, tmp_path: Path
) -> None:
    file = "memory.max" if version == 2 else "memory.limit_in_bytes"
    top = lay_cgroups(tmp_path, {"": {file: "100"}}, own=own, mount_root=mount_root, version=version)
    found = tightest(tmp_path)
    assert found is not None
    assert found.group == top


def test_where_there_is_nothing_to_read_there_is_no_limit(tmp_path: Path) -> None:
    assert tightest(tmp_path) is None
    top = lay_cgroups(tmp_path, {"": {"memory.max": "100"}})
    (top / "memory.stat").write_text("inactive_file many\n")
    assert tightest(tmp_path) is None
    (tmp_path / "proc/self/cgroup").write_text("nonsense\n")
    assert tightest(tmp_path) is None


def test_this_machine_is_read() -> None:
    """Whatever it says: the limit of a container's group is at most the machine's memory, or none."""
    found = CgroupMemory().tightest_limit()
    assert found is None or 0 < found.limit_bytes < 1 << 62
