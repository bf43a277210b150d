"""How much memory all recordings of this process may take: a share of what its control groups leave."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

from otel_torchprof._native import core
from otel_torchprof.recorder.cgroup_memory import CgroupMemory, MemoryLimit
from otel_torchprof.run_identity import ranks_on_this_machine

_logger = logging.getLogger("otel_torchprof")

# The rest is for the program, which may need more in its next step, and for making spans of recordings.
_SHARE = 0.25
_NO_BOUND = 2**64 - 1


@dataclass(frozen=True, slots=True)
class MemoryBound:
    """What all recordings of this process together may take, and what that follows from."""

    limit: MemoryLimit
    ranks: int  # that share it, as all of them may record at once
    recordings_bytes: int

    def metadata(self) -> dict[str, int]:
        """For a recording: numbers alone, as the names of control groups are the operator's."""
        return {
            "limit_bytes": self.limit.limit_bytes,
            "left_bytes": self.limit.left_bytes,
            "recordings_bytes": self.recordings_bytes,
        }


class MemoryBudget:
    """Follows the limits of the process, which may change while it runs."""

    def __init__(self, cgroups: CgroupMemory | None = None) -> None:
        self.cgroups = cgroups or CgroupMemory()
        self._said = False

    def bound(self) -> MemoryBound | None:
        """What recordings may take now; None where nothing limits the process."""
        limit = self.cgroups.tightest_limit()
        if limit is None:
            return None
        ranks = ranks_on_this_machine(os.environ)
        # What they have is part of what is used.
        left_bytes = limit.left_bytes / ranks + core.memory_of_recordings()
        return MemoryBound(limit, ranks, int(_SHARE * left_bytes))

    def apply(self, wanted_bytes: int) -> MemoryBound | None:
        """Bound all recordings, before another one begins.

        Args:
            wanted_bytes: what that one may grow to by itself; a bound below it is said, once.
        """
        bound = self.bound()
        core.bound_recordings(_NO_BOUND if bound is None else bound.recordings_bytes)
        if bound is not None and bound.recordings_bytes < wanted_bytes and not self._said:
            self._said = True
            _logger.warning("otel-torchprof: %s", describe_shortage(bound, wanted_bytes))
        return bound


def describe_shortage(bound: MemoryBound, wanted_bytes: int) -> str:
    """One line about a bound that is below what a recording may grow to by itself."""
    limit = bound.limit
    sharing = f" for {bound.ranks} ranks" if bound.ranks > 1 else ""
    return (
        f"recordings take {_mib(bound.recordings_bytes)} together instead of up to {_mib(wanted_bytes)}: "
        f"{_SHARE:.0%} of what the memory limit of {limit.group} leaves, {_mib(limit.left_bytes)} of "
        f"{_mib(limit.limit_bytes)}{sharing}; what does not fit is dropped and counted as memory_limit"
    )


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:,.1f} MiB"


memory_budget = MemoryBudget()
