"""Communication between ranks: how long it took, and how much of that was waiting for the last of them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.device_work import DeviceWork
from otel_torchprof.analysis.event_names import is_named, names_of
from otel_torchprof.analysis.launches import launches
from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.metrics.families import MetricFamily
from otel_torchprof.metrics.histogram_family import histogram_family
from otel_torchprof.recording import EventFlags, EventKind, Recording
from otel_torchprof.semconv_metrics import (
    COLLECTIVE_DURATION,
    COLLECTIVE_GROUP,
    COLLECTIVE_NAME,
    COLLECTIVE_WAIT,
    OTHER,
)

Numbers: TypeAlias = npt.NDArray[np.int64]

# Pairs of a name and a group with series of their own.
TOP_COLLECTIVES = 11

# What torch.distributed calls the scope around a collective, after the name of its back end.
_SCOPE = re.compile(r"(nccl|rccl|xccl|gloo|mpi|ucc):(\w+)$")
# Back ends that run on the CPU: the scope is the collective. Of others it is only the launch.
_CPU_SCOPE = re.compile(r"(gloo|mpi|ucc):\w+$")
_KERNEL = re.compile(
    r"(?:nccl|rccl)(?:(?:Dev)?Kernel_([A-Za-z]+)|([A-Z][A-Za-z]*?)(?:Ring|Tree|CollNet|LL|Kernel))"
)
_WORD_BEGINS = re.compile(r"(?<=[a-z])(?=[A-Z])")
_GROUP_KEYS = ("Process Group Description", "Process Group Name")
_SIZE_KEYS = ("In msg nelems", "Out msg nelems", "dtype")
_NOT_KNOWN = -1


def collective_name(recorded: str) -> str:
    """What a kernel or a scope of torch.distributed does: `all_reduce`, `all_gather`, `send_recv`, ..."""
    scope = _SCOPE.match(recorded)
    if scope:
        return scope[2].strip("_").removesuffix("_base").lower()
    kernel = _KERNEL.search(recorded)
    function = (kernel[1] or kernel[2]) if kernel else ""
    return _WORD_BEGINS.sub("_", function).lower() or OTHER


def collective_families(recording: Recording, start_unix_ns: int) -> list[MetricFamily]:
    """Collective kernels, and on the CPU what torch.distributed says that its back end does."""
    collectives = _find(recording)
    # By time, and by name and group where that is equal.
    pairs = len(collectives.pairs)
    total_ns = np.bincount(collectives.pair, weights=collectives.duration_ns, minlength=pairs)
    ranked = sorted(range(len(total_ns)), key=lambda index: (-total_ns[index], collectives.pairs[index]))
    place = np.empty(len(ranked), dtype=np.int64)
    place[ranked] = np.minimum(np.arange(len(ranked)), TOP_COLLECTIVES)
    attributes = [collectives.pairs[index].attributes for index in ranked[:TOP_COLLECTIVES]]
    attributes.append({COLLECTIVE_NAME: OTHER})
    series = place[collectives.pair]
    has_size = collectives.size != _NOT_KNOWN
    return [
        histogram_family(COLLECTIVE_DURATION, collectives.duration_ns, series, attributes, start_unix_ns),
        histogram_family(
            COLLECTIVE_WAIT, _wait_ns(collectives)[has_size], series[has_size], attributes, start_unix_ns
        ),
    ]


class _Pair(NamedTuple):
    name: str
    group: str  # empty = not known

    @property
    def attributes(self) -> Mapping[str, str]:
        return {COLLECTIVE_NAME: self.name, **({COLLECTIVE_GROUP: self.group} if self.group else {})}


@dataclass(frozen=True, eq=False)
class _Collectives:
    """One row a collective."""

    duration_ns: Numbers
    pair: Numbers  # index into `pairs`
    pairs: list[_Pair]
    size: Numbers  # equal for messages of equal size and type


def _wait_ns(collectives: _Collectives) -> Numbers:
    """What each took longer than the shortest of its name, group and size."""
    _kinds, kind = np.unique(np.stack([collectives.pair, collectives.size]), axis=1, return_inverse=True)
    kind = kind.reshape(-1)
    shortest_ns = np.full(len(kind), np.iinfo(np.int64).max)
    np.minimum.at(shortest_ns, kind, collectives.duration_ns)
    wait_ns: Numbers = collectives.duration_ns - shortest_ns[kind]
    return wait_ns


def _find(recording: Recording) -> _Collectives:
    events = recording.events
    work = DeviceWork.of(recording)
    kernels = work.rows[work.is_collective]
    on_cpu = np.isin(events.kind, (EventKind.OP, EventKind.USER))
    has_ended = events.flags & EventFlags.UNFINISHED == 0
    calls = np.flatnonzero(
        is_named(recording, lambda name: _CPU_SCOPE.match(name) is not None) & on_cpu & has_ended
    )
    rows = np.concatenate([kernels, calls])
    # A scope says more than the kernel in it: `all_to_all` runs `SendRecv`.
    scope = np.concatenate([_scope_of_kernels(recording, kernels), calls])
    name, names = names_of(recording, np.where(scope >= 0, scope, rows), collective_name)
    group, groups, size = _arguments(recording, rows, scope)
    pair_ids, pair = np.unique(name * len(groups) + group, return_inverse=True)
    pairs = [_Pair(names[index // len(groups)], groups[index % len(groups)]) for index in pair_ids.tolist()]
    return _Collectives(events.end_ns[rows] - events.start_ns[rows], pair.reshape(-1), pairs, size)


def _scope_of_kernels(recording: Recording, kernels: Numbers) -> Numbers:
    """The scope in which each kernel was launched, -1 = not known."""
    scope = np.full(len(recording), -1, dtype=np.int64)
    if len(kernels):
        call, work = launches(recording)
        is_scope = is_named(recording, lambda name: _SCOPE.match(name) is not None)
        scope[work] = nearest(recording.tree().parent, is_scope)[call]
    return scope[kernels]


def _arguments(recording: Recording, rows: Numbers, scope: Numbers) -> tuple[Numbers, list[str], Numbers]:
    """For each collective the index of its group, the groups, and a number for its size.

    The trace may say both of the kernel; else the size is that of the inputs of its scope.
    """
    text = _argument_text(recording, rows)
    texts, place = np.unique(text, return_inverse=True)
    groups: dict[str, int] = {"": 0}
    sizes: dict[str, int] = {}
    group_of_text: list[int] = []
    size_of_text: list[int] = []
    for text_id in texts.tolist():
        said: dict[str, Any] = json.loads(recording.name(text_id)) if text_id != _NOT_KNOWN else {}
        group = next((str(said[key]) for key in _GROUP_KEYS if said.get(key)), "")
        size = json.dumps([said.get(key) for key in _SIZE_KEYS]) if "In msg nelems" in said else ""
        group_of_text.append(groups.setdefault(group, len(groups)))
        size_of_text.append(sizes.setdefault(size, len(sizes)) if size else _NOT_KNOWN)
    place = place.reshape(-1)
    by_inputs = recording.input_shape_ids().astype(np.int64)[scope]
    by_inputs = np.where((scope >= 0) & (by_inputs > 0), len(sizes) + by_inputs, _NOT_KNOWN)
    size_said = np.array(size_of_text, dtype=np.int64)[place]
    return (
        np.array(group_of_text, dtype=np.int64)[place],
        list(groups),
        np.where(size_said == _NOT_KNOWN, by_inputs, size_said),
    )


def _argument_text(recording: Recording, rows: Numbers) -> Numbers:
    """The string id of what the trace said of each row, `_NOT_KNOWN` = nothing."""
    records = recording.arguments
    text = np.full(len(rows), _NOT_KNOWN, dtype=np.int64)
    if len(records):
        place = np.minimum(np.searchsorted(records["event"], rows), len(records) - 1)
        found = records["event"][place] == rows
        text[found] = records["text"][place[found]]
    return text
