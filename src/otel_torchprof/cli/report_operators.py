"""The operators in `otel-torchprof report`: what ran on threads, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from otel_torchprof.analysis.averages import AveragesRow, Side
from otel_torchprof.cli.table import ReportTable
from otel_torchprof.cli.text import NameCell, OutputConsole, cell, duration, size
from otel_torchprof.errors import TorchprofError

SORT_KEYS: dict[str, Callable[[AveragesRow], Any]] = {
    "self": lambda row: -row.self_ns,
    "total": lambda row: -row.total_ns,
    "mean": lambda row: -row.mean_ns,
    "calls": lambda row: -row.calls,
    "memory": lambda row: -(row.self_host_bytes or 0),
    "device-memory": lambda row: -(row.self_device_bytes or 0),
    "name": lambda row: row.name,
}
# Shown where any row has some: allocated minus freed.
_MEMORY_COLUMNS: dict[str, Callable[[AveragesRow], int | None]] = {
    "CPU mem": lambda row: row.host_bytes,
    "self CPU mem": lambda row: row.self_host_bytes,
    "device mem": lambda row: row.device_bytes,
    "self device mem": lambda row: row.self_device_bytes,
}
# What a narrow terminal does not show, and a very narrow one; the column that the rows are sorted by stays.
_SPARE = ("device mem", "CPU mem", "mean", "self CPU mem", "self device mem", "total")
_LAST = ("share", "calls", "self")
_SORTED_BY = {"memory": "self CPU mem", "device-memory": "self device mem"}


def sorted_rows(rows: Sequence[AveragesRow], by: str) -> list[AveragesRow]:
    """The rows, in the order of a column.

    Raises:
        TorchprofError: it is of memory, and none was recorded.
    """
    heading = _SORTED_BY.get(by)
    if heading is not None and not any(_MEMORY_COLUMNS[heading](row) for row in rows):
        kind = by.replace("-", " ")
        raise TorchprofError(
            f"--sort {by}: the recording has no {kind} of operators; profile_memory records it"
        )
    return sorted(rows, key=SORT_KEYS[by])


def json_rows(rows: Sequence[AveragesRow]) -> list[dict[str, Any]]:
    """The rows for machines."""
    return [{**asdict(row), "kind": row.kind.name.lower()} for row in rows]


def print_operators(
    console: OutputConsole,
    rows: Sequence[AveragesRow],
    *,
    sort: str,
    limit: int,
    with_shapes: bool,
    steps_ns: int | None,
) -> None:
    """Prints those of the rows that ran on threads, at most `limit` (0 = all), and their time in all.

    Args:
        steps_ns: how long the chosen steps lasted, which shares are of; None = everything was chosen.
    """
    on_threads = [row for row in rows if row.side is Side.THREADS]
    if not on_threads:
        console.print("no events on threads")
        return
    shown = on_threads[:limit] if limit else on_threads
    table = _table(shown, sort, with_shapes=with_shapes)
    console.print(table)
    if len(shown) < len(on_threads):
        console.print(f"... {len(on_threads) - len(shown)} more names (--limit 0 shows all)")
    calls, self_ns = sum(row.calls for row in on_threads), sum(row.self_ns for row in on_threads)
    called = f"{calls:,} event{'s' if calls != 1 else ''} on threads"
    if steps_ns is None:
        of = "; share is of their" if table.shows("share", console.width) else ","
        console.print(f"{called}{of} {duration(self_ns)} of self time")
        return
    of = f"; share is of the {duration(steps_ns)} chosen" if table.shows("share", console.width) else ""
    console.print(f"{called}, {duration(self_ns)} of self time{of}")
    if any(not row.calls for row in shown):
        console.print("(0 calls: it was open already when a step began; what of it is inside counts)")


def _table(rows: Sequence[AveragesRow], sort: str, *, with_shapes: bool) -> ReportTable:
    memory = [heading for heading, of in _MEMORY_COLUMNS.items() if any(of(row) for row in rows)]
    names = ("on threads", "shapes") if with_shapes else ("on threads",)
    numbers = ("calls", "total", "self", "mean", "share", *memory)
    kept = _SORTED_BY.get(sort, sort)
    spare, last = ([heading for heading in columns if heading != kept] for columns in (_SPARE, _LAST))
    table = ReportTable(names, numbers, spare=spare, last=last)
    for row in rows:
        table.add_row(
            NameCell(row.name),
            *([cell(list(row.shapes or ()))] if with_shapes else []),
            f"{row.calls:,}",
            duration(row.total_ns),
            duration(row.self_ns),
            duration(row.mean_ns) if row.calls else "-",
            f"{row.self_share:.1%}",
            *(_signed_size(_MEMORY_COLUMNS[heading](row) or 0) for heading in memory),
        )
    return table


def _signed_size(size_bytes: int) -> str:
    return size(size_bytes) if size_bytes >= 0 else f"-{size(-size_bytes)}"
