"""The modules of the model: a tree with what each cost."""

from __future__ import annotations

from typing import Any

from otel_torchprof.analysis.modules import ModuleRow, module_tree
from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.recording import Recording

MAX_MODULES = 2000


def module_rows(recording: Recording) -> dict[str, Any]:
    """Columns of the dearest `MAX_MODULES`, callers before what they call, and how many were `left_out`.

    Returns:
        `path`, `name` (the class), `parent` (index, -1 = outermost), `depth`, `calls`, `forward_ns`,
        `self_forward_ns`, `backward_ns`, `device_ns`, `allocated_bytes`, `parameters` (-1 = not known).
    """
    rows = module_tree(recording).rows
    # A module costs no less than what it calls, so that callers are kept with what they call.
    dearest = sorted(range(len(rows)), key=lambda index: (-_cost_ns(rows[index]), index))[:MAX_MODULES]
    kept = sorted(dearest)
    place = {index: number for number, index in enumerate(kept)}
    chosen = [rows[index] for index in kept]
    return {
        "path": [shown(row.path) if row.path else "" for row in chosen],
        "name": [shown(row.class_name) for row in chosen],
        "parent": [place.get(row.parent, -1) for row in chosen],
        "depth": [row.depth for row in chosen],
        "calls": [row.calls for row in chosen],
        "forward_ns": [row.forward_ns for row in chosen],
        "self_forward_ns": [row.self_forward_ns for row in chosen],
        "backward_ns": [row.backward_ns for row in chosen],
        "device_ns": [row.device_ns for row in chosen],
        "allocated_bytes": [row.allocated_bytes for row in chosen],
        "parameters": [-1 if row.parameter_count is None else row.parameter_count for row in chosen],
        "left_out": len(rows) - len(chosen),
    }


def _cost_ns(row: ModuleRow) -> int:
    return row.forward_ns + row.backward_ns
