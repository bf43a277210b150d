"""Which ranks of a job record their steps: all of them at once would send the same trace many times over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from otel_torchprof.recorder.schedule import ProfilerAction, Schedule
from otel_torchprof.run_identity import RunIdentity

_MAX_RANK_DIGITS = 9
_ALL = "all"
_ROTATING = "rotating"


@dataclass(frozen=True, slots=True)
class RankShare:
    """Ranks that always record, and whether another one does in turn. `ranks` None = all of them."""

    ranks: frozenset[int] | None = frozenset({0})
    rotating: bool = True

    def includes(self, identity: RunIdentity, window: int) -> bool:
        """Whether this rank records window number `window` (from 0); needs no word between the ranks.

        The turn goes round the other ranks, one a window, and begins elsewhere after each restart.
        """
        if self.ranks is None or identity.world_size == 1 or identity.rank in self.ranks:
            return True
        if not self.rotating:
            return False
        always = sorted(rank for rank in self.ranks if rank < identity.world_size)
        place = identity.rank - sum(rank < identity.rank for rank in always)
        return place == (window + identity.restart) % (identity.world_size - len(always))


def parse_rank_share(text: str) -> RankShare:
    """Read `all`, or numbers of ranks and `rotating`, separated by commas.

    Raises:
        ValueError: another word, or a number out of range.
    """
    words = [word.strip().lower() for word in text.split(",")]
    if words == [_ALL]:
        return RankShare(ranks=None, rotating=False)
    ranks = set()
    for word in words:
        if word == _ROTATING:
            continue
        if not (word.isascii() and word.isdigit() and len(word) <= _MAX_RANK_DIGITS):
            raise ValueError(f"{word!r} is no rank")
        ranks.add(int(word))
    return RankShare(frozenset(ranks), _ROTATING in words)


DEFAULT_RANK_SHARE = RankShare()


class SharedSchedule:
    """A schedule of which this rank takes part in some windows only.

    Args:
        schedule: of all windows, the same on all ranks.
        is_mine: whether this rank records the window of that number, from 0; asked when one begins.
    """

    def __init__(self, schedule: Schedule, is_mine: Callable[[int], bool]) -> None:
        self._schedule = schedule
        self._is_mine = is_mine
        self._windows = 0
        self._is_in_window = False
        self._takes_part = False

    @property
    def is_due(self) -> bool:
        """Whether a step that begins now may be recorded by any rank, or must be counted."""
        return self._schedule.is_due

    def action(self, step: int) -> ProfilerAction:
        """Return what to do during step number `step`."""
        action = self._schedule.action(step)
        if not action.records:
            self._is_in_window = False
            return action
        if not self._is_in_window:
            self._takes_part = self._is_mine(self._windows)
            self._windows += 1
        self._is_in_window = action is not ProfilerAction.RECORD_AND_SAVE
        return action if self._takes_part else ProfilerAction.NONE
