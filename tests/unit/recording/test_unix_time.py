"""Times of recordings as people write them."""

from __future__ import annotations

import pytest

from otel_torchprof.recording.unix_time import utc_text


@pytest.mark.parametrize(
    ("unix_ns", "text"),
    [
        (1_700_000_000_123_999_999, "2023-11-14 22:13:20.123 UTC"),
        (0, "1970-01-01 00:00:00.000 UTC"),
        (-1, "1969-12-31 23:59:59.999 UTC"),
        ((1 << 62) - 1, "2116-02-20 23:53:38.427 UTC"),
        (1 << 80, "1208925819614629174706176 ns"),
    ],
)
def test_a_moment_is_written_in_utc_and_a_number_where_there_is_no_date(unix_ns: int, text: str) -> None:
    assert utc_text(unix_ns) == text
