"""The modules in `otel-torchprof report`: a tree with what each cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from otel_torchprof.analysis.modules import ModuleRow
from otel_torchprof.cli_text import NameCell, duration, make_table, size

_INDENT = "  "


def module_table(rows: Sequence[ModuleRow]) -> Table:
    """A row for each module, those called within it below it; columns of zeros are left out."""
    with_device = any(row.device_ns for row in rows)
    with_memory = any(row.allocated_bytes for row in rows)
    headings = ["calls", "forward", "self", "backward"]
    headings += ["device"] if with_device else []
    headings += ["allocated"] if with_memory else []
    table = make_table(("module", "class"), (*headings, "parameters"))
    for row in rows:
        table.add_row(
            NameCell(_INDENT * row.depth + (row.path or ("(no path)" if row.depth else "(root)"))),
            NameCell(row.class_name),
            f"{row.calls:,}",
            duration(row.forward_ns),
            duration(row.self_forward_ns),
            duration(row.backward_ns),
            *([duration(row.device_ns)] if with_device else []),
            *([size(row.allocated_bytes)] if with_memory else []),
            "" if row.parameter_count is None else f"{row.parameter_count:,}",
        )
    return table


def module_json(rows: Sequence[ModuleRow]) -> list[dict[str, Any]]:
    """The same for machines."""
    return [asdict(row) for row in rows]
