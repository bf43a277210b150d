"""Names of events cut short: those of the spans, so that a table or a metric leads to them.

Demangling and folding are the core's (native/spans/kernel_name.h), which has the demangler of the C++ runtime
at hand: no other package is needed, and there is one rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof._native import core
from otel_torchprof.recording import EventKind, Recording

Numbers: TypeAlias = npt.NDArray[np.int64]

STEP_MARK = "ProfilerStep"
_NUMBERED_STEP = re.compile(rf"({STEP_MARK})#\d+")


def without_step_number(name: str) -> str:
    """One name for the marks of all steps, `ProfilerStep` for `ProfilerStep#12`; others as they are."""
    return _NUMBERED_STEP.sub(r"\1", name)


def short_kernel_name(recorded: str | bytes) -> str:
    """The qualified name of the function that ran, of at most 255 characters and never empty.

    Without types, template arguments, parameters and anonymous namespaces, and without hashes, addresses,
    long numbers and Triton's specializations: `triton_poi_fused_add_0d1d2de` is `triton_poi_fused_add`.
    A short name stays as it is.
    """
    return core.span_name(_bytes_of(recorded), EventKind.KERNEL)


def short_op_name(recorded: str | bytes) -> str:
    """The name of an operator or user span without compile ids and hashes, within 255 characters."""
    return core.span_name(_bytes_of(recorded), EventKind.OP)


def _bytes_of(recorded: str | bytes) -> bytes:
    return recorded if isinstance(recorded, bytes) else recorded.encode("utf-8", "surrogatepass")


def names_of(recording: Recording, rows: Numbers, shorten: Callable[[str], str]) -> tuple[Numbers, list[str]]:
    """The shortened names of events: an index for each row, and what the indexes stand for.

    Each recorded name is shortened once.
    """
    name = recording.events.name[rows]
    index_by_name: dict[str, int] = {}
    index = np.zeros(recording.name_count, dtype=np.int64)
    for name_id in _used(name):
        short = shorten(recording.name(name_id))
        index[name_id] = index_by_name.setdefault(short, len(index_by_name))
    return index[name], list(index_by_name)


def is_named(recording: Recording, wanted: Callable[[str], bool]) -> npt.NDArray[np.bool_]:
    """For each event, whether its recorded name is one of those wanted; each name is asked for once."""
    name = recording.events.name
    is_wanted = np.zeros(recording.name_count, dtype=bool)
    for name_id in _used(name):
        is_wanted[name_id] = wanted(recording.name(name_id))
    return is_wanted[name]


def is_step_mark(recording: Recording) -> npt.NDArray[np.bool_]:
    """For each event, whether it is the numbered mark of a step."""
    return is_named(recording, lambda name: without_step_number(name) != name)


def _used(name: npt.NDArray[np.uint32]) -> list[int]:
    """The name ids that occur."""
    # Sorting, as np.unique does, takes longer than all else together.
    used: list[int] = np.flatnonzero(np.bincount(name)).tolist()
    return used
