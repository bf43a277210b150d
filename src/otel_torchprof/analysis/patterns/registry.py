"""The table of patterns."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points

from otel_torchprof.analysis.patterns.pattern import Pattern

ENTRY_POINT_GROUP = "otel_torchprof_patterns"

# One module a family, in the order of docs/patterns.md; each pattern is a `Pattern` in it.
FAMILIES = (
    "tensor_creation",
    "copies",
    "layout",
    "synchronization",
    "launching",
    "loops",
    "matmul",
    "convolution",
    "attention",
    "optimizer",
    "autograd",
    "evaluation",
    "data_loading",
    "compilation",
    "allocator",
    "garbage_collection",
)


@cache
def own_patterns() -> tuple[Pattern, ...]:
    """Those of this package."""
    modules = [import_module(f"otel_torchprof.analysis.patterns.{family}") for family in FAMILIES]
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Pattern))


@cache
def installed_patterns() -> tuple[EntryPoint, ...]:
    """Those of other packages, which name a `Pattern` each; one with a name of ours is left out."""
    own = {pattern.name for pattern in own_patterns()}
    return tuple(point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in own)
