"""The modules in `otel-torchprof report`: a tree with what each cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from otel_torchprof.analysis.modules import ModuleRow
from otel_torchprof.cli.table import ReportTable
from otel_torchprof.cli.text import NameCell, duration, size

_INDENT = "  "
# Of each column the value, which may be 0 or unknown, and how it is written.
_COLUMNS: dict[str, tuple[Callable[[ModuleRow], int | None], Callable[[ModuleRow], str]]] = {
    "calls": (lambda row: row.calls, lambda row: f"{row.calls:,}"),
    "forward": (lambda row: row.forward_ns, lambda row: duration(row.forward_ns)),
    "self": (lambda row: row.self_forward_ns, lambda row: duration(row.self_forward_ns)),
    "backward": (lambda row: row.backward_ns, lambda row: duration(row.backward_ns)),
    "device": (lambda row: row.device_ns, lambda row: duration(row.device_ns)),
    "allocated": (lambda row: row.allocated_bytes, lambda row: size(row.allocated_bytes)),
    "parameters": (
        lambda row: row.parameter_count,
        lambda row: "" if row.parameter_count is None else f"{row.parameter_count:,}",
    ),
}
# What a narrow terminal does not show, and a very narrow one.
_SPARE = ("parameters", "allocated", "self", "backward")
_LAST = ("class", "calls", "device")


def module_table(rows: Sequence[ModuleRow]) -> ReportTable:
    """A row for each module, those called within it below it; columns that hold nothing are left out."""
    columns = {
        heading: text
        for heading, (value, text) in _COLUMNS.items()
        if heading == "calls" or any(map(value, rows))
    }
    # Without any path, as other profilers leave modules, their classes are all the names there are.
    has_paths = any(row.path for row in rows)
    names = ("module", "class") if has_paths else ("module",)
    table = ReportTable(names, tuple(columns), spare=_SPARE, last=_LAST)
    for row in rows:
        indent = _INDENT * row.depth
        path = row.path or ("(no path)" if row.depth else "(root)")
        named = (indent + path, row.class_name) if has_paths else (indent + row.class_name,)
        table.add_row(*map(NameCell, named), *(text(row) for text in columns.values()))
    return table


def module_json(rows: Sequence[ModuleRow]) -> list[dict[str, Any]]:
    """The same for machines."""
    return [asdict(row) for row in rows]
