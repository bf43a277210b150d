"""What recordings may take of the memory that a limit leaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from otel_torchprof._native import core
from otel_torchprof.recorder.cgroup_memory import CgroupMemory
from otel_torchprof.recorder.memory_budget import MemoryBudget
from tests.support.cgroups import lay_cgroups

MIB = 1 << 20


@pytest.fixture
def budget(tmp_path: Path) -> Iterator[MemoryBudget]:
    """Of a process in a control group of 100 MiB, of which 60 are used."""
    lay_cgroups(tmp_path, {"": {"memory.max": str(100 * MIB)}}, used_bytes=60 * MIB)
    yield MemoryBudget(CgroupMemory(tmp_path))
    core.bound_recordings(2**64 - 1)


def test_they_get_a_quarter_of_what_is_left_and_of_what_they_have(budget: MemoryBudget) -> None:
    before = core.memory_of_recordings()
    capture = core.Capture(None, 4 * MIB)
    capture.start()
    has = core.memory_of_recordings()
    bound = budget.bound()
    assert bound is not None
    capture.stop()
    assert has >= before + MIB // 4
    assert bound.recordings_bytes >= (40 * MIB + before) // 4
    assert bound.metadata() == {
        "limit_bytes": 100 * MIB,
        "left_bytes": 40 * MIB,
        "recordings_bytes": bound.recordings_bytes,
    }
    del capture
    assert core.memory_of_recordings() == before


def test_a_shortage_is_said_once_and_what_suffices_is_not(
    budget: MemoryBudget, caplog: pytest.LogCaptureFixture
) -> None:
    assert budget.apply(5 * MIB) is not None
    assert caplog.messages == []
    for _ in range(2):
        assert budget.apply(100 * MIB) is not None
    (line,) = caplog.messages
    assert "instead of up to 100.0 MiB: 25% of what the memory limit of" in line
    assert "leaves, 40.0 MiB of 100.0 MiB; what does not fit is dropped and counted as memory_limit" in line


def test_ranks_of_one_machine_share_it(
    budget: MemoryBudget, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    alone = budget.bound()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    shared = budget.apply(8 * MIB)
    assert alone is not None
    assert shared is not None
    assert alone.recordings_bytes - shared.recordings_bytes == 40 * MIB // 4 * 7 // 8
    assert "leaves, 40.0 MiB of 100.0 MiB for 8 ranks; " in caplog.messages[0]


def test_without_a_limit_nothing_is_bounded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert MemoryBudget(CgroupMemory(tmp_path)).apply(1 << 50) is None
    assert caplog.messages == []
