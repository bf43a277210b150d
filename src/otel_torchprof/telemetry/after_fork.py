"""What must start anew in a forked child: threads, and locks that a thread of the parent may hold.

And what a fork must not cut in half: a module that a thread of ours is importing would stay half imported in
the child, for good. Servers fork right after they have loaded their program, so that this is no rare moment.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

# How long a fork waits for what may not be cut in half.
_MAX_WAIT_S = 5.0


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


@contextmanager
def whole_in_children() -> Iterator[None]:
    """Hold forks off while the body runs on a thread of ours, for some seconds at most."""
    with _whole:
        yield


_whole = threading.RLock()
_forking = threading.local()


def _before_fork() -> None:
    _forking.waited = _whole.acquire(timeout=_MAX_WAIT_S)


def _after_in_parent() -> None:
    if _forking.waited:
        _whole.release()


def _after_in_child() -> None:
    global _whole
    _whole = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_in_parent, after_in_child=_after_in_child)


def _rebuild_all() -> None:
    for owner in list(_owners):
        owner.rebuild_in_child()
