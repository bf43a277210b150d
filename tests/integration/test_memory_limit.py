"""Recordings under a limit on memory: a program goes on, and what was not recorded is counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from otel_torchprof._native import core
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.cgroup_memory import CgroupMemory
from otel_torchprof.recorder.memory_budget import MemoryBudget
from tests.support.cgroups import lay_cgroups

MIB = 1 << 20
OPS = 40_000  # 1.9 MB


@pytest.fixture
def limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """One that leaves 1 MiB for further recordings, whatever others of this process have: what it leaves."""
    left_bytes = 4 * MIB + 3 * core.memory_of_recordings()
    limits = {"": {"memory.max": str(46 * MIB + left_bytes)}}
    lay_cgroups(tmp_path, limits, used_bytes=46 * MIB)
    budget = MemoryBudget(CgroupMemory(tmp_path))
    monkeypatch.setattr("otel_torchprof.recorder.capture.memory_budget", budget)
    yield left_bytes
    core.bound_recordings(2**64 - 1)


def negate(value: torch.Tensor, times: int) -> None:
    """One op each."""
    for _ in range(times):
        value.neg_()


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_recording_takes_its_share_and_counts_the_rest(
    in_a_file: bool, limit: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before, value = core.memory_of_recordings(), torch.ones(2)
    capture = Capture(tmp_path / "run.tprof" if in_a_file else None)
    capture.start()
    negate(value, OPS)
    taken = core.memory_of_recordings() - before
    recording = capture.stop()
    (line,) = caplog.messages
    assert "instead of up to 256.0 MiB" in line
    assert taken <= MIB
    assert set(recording.drops) == {"memory_limit"}
    assert len(recording) + recording.drops["memory_limit"] == OPS
    assert len(recording) > OPS // 4
    assert recording.metadata["memory_limit"]["left_bytes"] == limit


@pytest.mark.usefixtures("limit")
def test_captures_at_the_same_time_share_it(caplog: pytest.LogCaptureFixture) -> None:
    before, value = core.memory_of_recordings(), torch.ones(2)
    captures = [Capture() for _ in range(3)]
    for capture in captures:
        capture.start()
    negate(value, OPS)
    taken = core.memory_of_recordings() - before
    recordings = [capture.stop() for capture in captures]
    # 256 KiB each has in any case; all of them together have no more than the share.
    assert taken <= 1.25 * MIB
    assert all(recording.drops["memory_limit"] for recording in recordings)
    assert len(caplog.messages) == 1
