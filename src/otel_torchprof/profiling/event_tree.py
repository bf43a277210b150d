"""The tree of events in the shape of torch's `_ProfilerEvent`s."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from otel_torchprof.profiling.event_names import event_name
from otel_torchprof.profiling.event_rows import MEMORY_NAME, OUT_OF_MEMORY_NAME, EventRows
from otel_torchprof.recording import (
    EventKind,
    InputList,
    InputValue,
    MemoryFlags,
    TensorInput,
)

_TORCH_KINDS = (EventKind.OP, EventKind.USER)


def event_tree(rows: EventRows) -> list[TreeEvent]:
    """The outermost events by start."""
    tree = _Tree(rows)
    return [tree.event(number) for number in rows.in_order.tolist() if rows.parent[number] < 0]


class _Tree:
    def __init__(self, rows: EventRows) -> None:
        self.rows = rows
        self._made: dict[int, TreeEvent] = {}

    def event(self, number: int) -> TreeEvent:
        if number not in self._made:
            self._made[number] = TreeEvent(self, number)
        return self._made[number]

    @cached_property
    def memory_of(self) -> dict[int, list[int]]:
        """Rows of memory by the event that they happened in."""
        found: dict[int, list[int]] = {}
        for place, owner in enumerate(self.rows.recording.memory["event"].tolist()):
            if owner >= 0:
                visible = owner if self.rows.row_visible[owner] else int(self.rows.parent[owner])
                if visible >= 0:
                    found.setdefault(visible, []).append(place)
        return found


class _Event:
    """What events of the tree have in common."""

    name: str
    start_time_ns: int
    end_time_ns: int
    tag: Any
    extra_fields: Any

    @property
    def duration_time_ns(self) -> int:
        """End minus start."""
        return self.end_time_ns - self.start_time_ns

    @property
    def typed(self) -> tuple[Any, Any]:
        """Tag and extra fields."""
        return self.tag, self.extra_fields

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} of {self.duration_time_ns} ns>"


class TreeEvent(_Event):
    """An op, user scope, Python call or piece of device work, and below it what it encloses."""

    def __init__(self, tree: _Tree, number: int) -> None:
        rows = tree.rows
        self._tree = tree
        self._number = number
        self.id = number
        self.correlation_id = number + 1
        self.start_time_ns = int(rows.start_ns[number])
        self.end_time_ns = int(rows.end_ns[number])
        track = rows.recording.tracks[int(rows.track[number])]
        self.start_tid = track.torch_thread_id or track.thread_id
        self._is_row = number < rows.first_step
        if self._is_row:
            name_id, kind = int(rows.recording.events.name[number]), int(rows.recording.events.kind[number])
            self.name = event_name(rows.recording, name_id, kind)
            self.overload_name = rows.recording.overload_name(name_id) if kind == EventKind.OP else ""
            self.kind = EventKind(kind)
        else:
            is_step = number < rows.first_memory
            self.kind = EventKind.USER if is_step else EventKind.OTHER
            step = rows.steps[number - rows.first_step] if is_step else None
            self.name = f"ProfilerStep#{step.number}" if step else rows.memory_name(number)
            self.overload_name = ""

    @property
    def parent(self) -> TreeEvent | None:
        """The event that encloses it."""
        above = int(self._tree.rows.parent[self._number])
        return None if above < 0 else self._tree.event(above)

    @cached_property
    def children(self) -> list[_Event]:
        """What it encloses directly, by start: events, and allocations and frees."""
        events: list[_Event] = [self._tree.event(number) for number in self._tree.rows.children(self._number)]
        memory = self._tree.rows.recording.memory
        for place in self._tree.memory_of.get(self._number, ()):
            events.append(MemoryEvent(memory[place], self))
        return sorted(events, key=lambda event: event.start_time_ns)

    @cached_property
    def tag(self) -> Any:
        """A `torch._C._profiler._EventType`."""
        from torch._C._profiler import _EventType

        if self.kind in _TORCH_KINDS:
            return _EventType.TorchOp
        if self.kind in {EventKind.PYTHON, EventKind.MODULE}:
            return _EventType.PyCall
        if self.kind == EventKind.PYTHON_C:
            return _EventType.PyCCall
        if self.name == MEMORY_NAME:
            return _EventType.Allocation
        return _EventType.OutOfMemory if self.name == OUT_OF_MEMORY_NAME else _EventType.Kineto

    @cached_property
    def extra_fields(self) -> Any:
        """What events of its kind have beside times and names."""
        rows = self._tree.rows
        if self.name in {MEMORY_NAME, OUT_OF_MEMORY_NAME} and not self._is_row:
            return _allocation(rows.lone_memory[self._number - rows.first_memory])
        if not self._is_row or self.kind not in _TORCH_KINDS:
            return OtherFields()
        columns = rows.recording.events
        return TorchOpFields(
            name=self.name,
            inputs=[_input(value) for value in rows.recording.inputs(self._number) or ()],
            scope=_scope(int(columns.scope[self._number])),
            sequence_number=int(columns.sequence[self._number]),
        )

    def __iter__(self) -> Iterator[_Event]:
        return iter(self.children)


class MemoryEvent(_Event):
    """An allocation or a free in an event."""

    def __init__(self, record: Any, parent: TreeEvent) -> None:
        self._record = record
        self.parent = parent
        self.children: list[_Event] = []
        self.start_time_ns = self.end_time_ns = int(record["time_ns"])
        self.start_tid = parent.start_tid
        self.is_out_of_memory = bool(int(record["flags"]) & MemoryFlags.OUT_OF_MEMORY)
        self.name = OUT_OF_MEMORY_NAME if self.is_out_of_memory else MEMORY_NAME
        self.overload_name = ""

    @cached_property
    def tag(self) -> Any:
        """A `torch._C._profiler._EventType`."""
        from torch._C._profiler import _EventType

        return _EventType.OutOfMemory if self.is_out_of_memory else _EventType.Allocation

    @cached_property
    def extra_fields(self) -> AllocationFields:
        """Size, address and totals."""
        return _allocation(self._record)


@dataclass(frozen=True, slots=True)
class TorchOpFields:
    """Of ops and user scopes."""

    name: str
    inputs: list[Any]
    scope: Any
    sequence_number: int
    allow_tf32_cublas: bool = False


@dataclass(frozen=True, slots=True)
class AllocationFields:
    """Of allocations (`alloc_size` > 0) and frees."""

    alloc_size: int
    ptr: int
    device: Any
    total_allocated: int
    total_reserved: int
    id: int | None = None
    allocation_id: int | None = None


@dataclass(frozen=True, slots=True)
class OtherFields:
    """Of events of which there is nothing more to say."""

    caller: None = None
    callsite: None = None
    module: None = None
    optimizer: None = None


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """A tensor that an op was given; `id` and `storage_data_ptr` take `profile_memory` too."""

    sizes: list[int]
    strides: list[int]
    dtype: Any
    device: Any
    layout: Any
    impl_ptr: int | None
    storage_data_ptr: int | None
    requires_grad: bool = False
    id: int | None = None
    allocation_id: int | None = None


def _allocation(record: Any) -> AllocationFields:
    import torch

    types = ("cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla", "vulkan")
    number = int(record["device_type"])
    index = int(record["device"])
    name = types[number] if number < len(types) else "privateuseone"
    return AllocationFields(
        alloc_size=int(record["size_bytes"]),
        ptr=int(record["address"]),
        device=torch.device(name, index) if index >= 0 and name != "cpu" else torch.device(name),
        total_allocated=int(record["total_allocated_bytes"]),
        total_reserved=max(int(record["total_reserved_bytes"]), 0),
    )


def _input(value: InputValue) -> Any:
    import torch

    if isinstance(value, TensorInput):
        identity = value.identity
        return TensorMetadata(
            sizes=list(value.sizes),
            strides=list(value.strides or ()),
            dtype=getattr(torch, value.dtype, None),
            device=torch.device(value.device_type),
            layout=torch.strided if value.strides is not None else None,
            impl_ptr=identity.tensor_id if identity else None,
            storage_data_ptr=identity.storage_address if identity else None,
            requires_grad=identity.requires_grad if identity else False,
        )
    if isinstance(value, InputList):
        return [_input(item) for item in value.items]
    return value if isinstance(value, (bool, int, float, str, complex)) else None


def _scope(number: int) -> Any:
    from torch._C._profiler import RecordScope

    return RecordScope(number)
