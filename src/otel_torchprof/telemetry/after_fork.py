"""What must start anew in a forked child: threads, and locks that a thread of the parent may hold."""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Rebuildable(Protocol):
    """Has state that a fork makes unusable."""

    def rebuild_in_child(self) -> None:
        """Called in the child, right after the fork, on its only thread."""
        ...


_owners: weakref.WeakSet[Rebuildable] = weakref.WeakSet()
_hook_registered = False


def rebuild_after_fork(owner: Rebuildable) -> None:
    """Have `owner.rebuild_in_child` called in every forked child, as long as `owner` lives."""
    global _hook_registered
    _owners.add(owner)
    if not _hook_registered:
        _hook_registered = True
        os.register_at_fork(after_in_child=_rebuild_all)


def _rebuild_all() -> None:
    for owner in list(_owners):
        owner.rebuild_in_child()
