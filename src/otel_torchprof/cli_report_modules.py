"""The modules in `otel-torchprof report`: a tree with what each cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table

from otel_torchprof.analysis.modules import ModuleRow
from otel_torchprof.cli_text import cell, duration, size

_INDENT = "  "


def module_table(rows: Sequence[ModuleRow]) -> Table:
    """A row for each module, those called within it below it; columns of zeros are left out."""
    table = Table(box=None, pad_edge=False)
    table.add_column("module", overflow="ellipsis", no_wrap=True)
    table.add_column("class", overflow="ellipsis", no_wrap=True)
    with_device = any(row.device_ns for row in rows)
    with_memory = any(row.allocated_bytes for row in rows)
    headings = ["calls", "forward", "self", "backward"]
    headings += ["device"] if with_device else []
    headings += ["allocated"] if with_memory else []
    for heading in (*headings, "parameters"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            cell(_INDENT * row.depth + (row.path or "(root)" if not row.depth else row.path or "(no path)")),
            cell(row.class_name),
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
