"""The memory and the operators of `otel-torchprof report` on a narrow terminal."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from otel_torchprof.recording import MEMORY_DTYPE, RecordingBuilder
from tests.support.terminals import terminal_lines

US = 1_000


@pytest.fixture
def tprof(tmp_path: Path) -> str:
    """Ops with long names, each of which allocates more in each step."""
    builder = RecordingBuilder()
    track = builder.add_track("main", process_id=1, thread_id=100)
    rows = np.zeros(30, dtype=MEMORY_DTYPE)
    for number in range(30):
        start_ns = number * 100 * US
        builder.add_step(start_ns, start_ns + 90 * US, number, track=track)
        name = f"aten::scaled_dot_product_attention_{number % 2}"
        builder.add_event(name, start_ns + 10 * US, start_ns + 80 * US, track=track)
        rows[number]["time_ns"] = start_ns + 20 * US
        rows[number]["address"] = 0x1000 * (number + 1)
    rows["event"] = -1
    rows["track"] = track
    rows["size_bytes"] = 123 << 20
    rows["total_allocated_bytes"] = np.cumsum(rows["size_bytes"])
    rows["total_reserved_bytes"] = -1
    rows["device"] = -1
    builder.add_memory(rows)
    path = tmp_path / "memory.tprof"
    builder.finish().save(path)
    return str(path)


@pytest.mark.parametrize(
    ("width", "operators", "peak", "growth"),
    [
        (
            120,
            "on threads calls total self mean share CPU mem self CPU mem",
            "at the peak, by operator blocks bytes share",
            "allocated in a step in use at the end blocks",
        ),
        (40, "on threads calls self share", "operator bytes share", "allocated in a step"),
    ],
)
def test_every_table_has_room(
    width: int,
    operators: str,
    peak: str,
    growth: str,
    tprof: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = terminal_lines(monkeypatch, width, ["report", tprof])
    assert max(map(len, lines)) <= width
    headings = [" ".join(line.split()) for line in lines]
    assert {operators, peak} <= set(headings)
    assert any(heading.endswith(growth) for heading in headings)
