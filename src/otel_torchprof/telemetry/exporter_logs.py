"""What an exporter of the SDK logs while it works for us: kept back, and said once instead of each minute."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PACKAGE = "opentelemetry.exporter."


class _ThisThread(threading.local):
    kept: list[str] | None = None


_this_thread = _ThisThread()


class _KeepFilter(logging.Filter):
    """Keeps back what a thread logs that is inside `kept_logs`; all other threads log as ever."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _this_thread.kept is None:
            return True
        _this_thread.kept.append(record.getMessage())
        return False


_filter = _KeepFilter()


@contextmanager
def kept_logs(exporter: object) -> Iterator[list[str]]:
    """The messages that `exporter`'s own modules log on this thread meanwhile, which go nowhere else."""
    for cls in type(exporter).__mro__:
        if cls.__module__.startswith(_PACKAGE):
            logging.getLogger(cls.__module__).addFilter(_filter)  # once: a second time changes nothing
    messages: list[str] = []
    _this_thread.kept = messages
    try:
        yield messages
    finally:
        _this_thread.kept = None
