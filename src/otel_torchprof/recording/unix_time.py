"""Times of recordings, which are unix ns, as people write them."""

from __future__ import annotations

from datetime import datetime, timezone


def utc_text(unix_ns: int) -> str:
    """The moment in UTC, to the millisecond; the bare number where it lies outside the calendar."""
    try:
        moment = datetime.fromtimestamp(unix_ns // 1_000_000_000, timezone.utc)
    except (OverflowError, ValueError, OSError):
        return f"{unix_ns} ns"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{unix_ns // 1_000_000 % 1000:03d} UTC"
