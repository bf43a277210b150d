"""Work on threads of its own, waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable


def run_in_threads(*works: Callable[[], object]) -> None:
    """Runs each on a thread of its own, all at the same time, until all have ended."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
