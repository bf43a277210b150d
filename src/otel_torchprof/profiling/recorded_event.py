"""Events of a recording, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload
from weakref import WeakValueDictionary

import numpy as np

from otel_torchprof.profiling.event_names import event_name, python_name
from otel_torchprof.profiling.event_rows import PYTHON_KINDS, STEP_NAME, EventRows
from otel_torchprof.profiling.flops import flops_by_row, time_with_formula
from otel_torchprof.profiling.function_event import FunctionEvent, Interval, Kernel
from otel_torchprof.profiling.inputs_view import InputsView
from otel_torchprof.profiling.table import TableContents, TableTotals
from otel_torchprof.recording import EventFlags, EventKind, StackFrame, Track

_NS_PER_US = 1000
_BACKWARD_SCOPE = 1
_NODE_RUN = "autograd::engine::evaluate_function: "
_USER_SCOPE = 7
_ASYNC = int(EventFlags.ASYNC | EventFlags.OTHER_THREAD)
_ACTIVITY_TYPES = {
    EventKind.OP: "cpu_op",
    EventKind.USER: "user_annotation",
    EventKind.RUNTIME: "cuda_runtime",
    EventKind.DRIVER: "cuda_driver",
    EventKind.KERNEL: "kernel",
    EventKind.MEMCPY: "gpu_memcpy",
    EventKind.MEMSET: "gpu_memset",
    EventKind.SYNC: "cuda_sync",
    EventKind.PYTHON: "python_function",
    EventKind.PYTHON_C: "python_function",
    EventKind.MODULE: "python_function",
    EventKind.OVERHEAD: "overhead",
    EventKind.ANNOTATION: "gpu_user_annotation",
    EventKind.OTHER: "cpu_instant_event",
}


def activity_type_of(kind: EventKind) -> str:
    """The category in a Chrome trace of events of a kind; empty = none of Kineto's."""
    return _ACTIVITY_TYPES.get(kind, "")


class RecordedEvents(Sequence["RecordedEvent"]):
    """The events of a recording by start. The same event is the same object as long as anybody holds it."""

    def __init__(self, rows: EventRows) -> None:
        from torch.autograd import DeviceType

        self.rows = rows
        self.host = DeviceType.CPU
        self.device = getattr(DeviceType, (rows.options.use_device or "cuda").upper(), DeviceType.CUDA)
        self._names: dict[tuple[int, int], str] = {}
        self._alive: WeakValueDictionary[int, RecordedEvent] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self.rows.in_order)

    @overload
    def __getitem__(self, index: int) -> RecordedEvent: ...

    @overload
    def __getitem__(self, index: slice) -> list[RecordedEvent]: ...

    def __getitem__(self, index: int | slice) -> RecordedEvent | list[RecordedEvent]:
        numbers = self.rows.in_order[index]
        if isinstance(index, slice):
            return [self.event(int(number)) for number in numbers]
        return self.event(int(numbers))

    def __iter__(self) -> Iterator[RecordedEvent]:
        for number in self.rows.in_order.tolist():
            yield self.event(number)

    def event(self, number: int) -> RecordedEvent:
        """The event of a number of `EventRows`."""
        event = self._alive.get(number)
        if event is None:
            event = self._alive[number] = RecordedEvent(self, number)
        return event

    def totals(self) -> TableTotals:
        """Totals of all events, added up in columns."""
        rows = self.rows
        numbers = rows.in_order
        on_device = rows.device_numbers
        asynchronous = rows.async_numbers
        self_cpu_ns = int(rows.self_ns[numbers].sum())
        self_cpu_ns -= int(rows.self_ns[on_device].sum()) + int(rows.self_ns[asynchronous].sum())
        device = rows.options.use_device or ""
        self_device_ns = int(rows.self_device_ns[on_device].sum()) if device else 0
        return TableTotals(
            device.upper(),
            self_cpu_ns / _NS_PER_US,
            self_device_ns / _NS_PER_US,
            self_device_ns > 0,
            bool(device) and bool((rows.memory[3][numbers] > 0).any()),
        )

    def contents(self) -> TableContents:
        """What any of the events has, found in columns."""
        recording = self.rows.recording
        events = recording.events
        numbers = self.rows.in_order
        rows = numbers[numbers < len(recording)]
        ops = np.unique(events.name[rows[events.kind[rows] == EventKind.OP]]).tolist()
        has_frames = bool(np.isin(events.kind, list(PYTHON_KINDS)).any())
        return TableContents(
            overloads=any(recording.overload_name(name) for name in ops),
            node_ids=False,
            shapes=bool(recording.input_shape_ids()[rows].any()),
            stacks=has_frames and any(self.stack(row) for row in rows.tolist()),
            least_flops=min(filter(None, self.flops.values()), default=0),
        )

    def name(self, row: int) -> str:
        """The name of a row."""
        columns = self.rows.recording.events
        key = int(columns.name[row]), int(columns.kind[row])
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = event_name(self.rows.recording, *key)
        return name

    def stack(self, row: int) -> list[str]:
        """The Python stack of a row, innermost first: of a backward op that of its forward op."""
        recording = self.rows.recording
        backward = self._backward_above(row)
        if backward is not None:
            forward = self._forward_rows.get(backward)
            if forward is None:
                return []
            row = forward
        return [_frame(frame) for frame in recording.stack_of(row)]

    def _backward_above(self, row: int) -> int | None:
        recording = self.rows.recording
        for above in (row, *recording.tree().ancestors(row)):
            is_op = recording.events.kind[above] == EventKind.OP
            if is_op and recording.events.scope[above] == _BACKWARD_SCOPE:
                return above
        return None

    @cached_property
    def flops(self) -> dict[int, int]:
        """Floating point operations by row, of ops that have a formula; none where they are not wanted."""
        return flops_by_row(self.rows.recording) if self.rows.options.with_flops else {}

    def flops_coverage(self) -> float | None:
        """The share of the time of all ops, on devices where there is any, that `flops` speaks for."""
        recording = self.rows.recording
        is_op = recording.events.kind == EventKind.OP
        covered = is_op & time_with_formula(recording, self.flops)
        count = len(recording)
        for self_ns in (self.rows.self_device_ns[:count], self.rows.self_ns[:count]):
            if whole_ns := int(self_ns[is_op].sum()):
                return int(self_ns[covered].sum()) / whole_ns
        return None

    @cached_property
    def _forward_rows(self) -> dict[int, int]:
        backward, forward = self.rows.recording.links.forward_backward_links()
        return dict(zip(backward.tolist(), forward.tolist(), strict=True))


class RecordedEvent(FunctionEvent):
    """One event of a recording, whose attributes are found when they are asked for."""

    _LAZY: dict[str, Callable[[RecordedEvent], Any]]

    start_ns: int
    end_ns: int
    end_thread: int
    count = 1
    node_id = -1
    is_legacy = False
    is_remote = False

    def __init__(self, events: RecordedEvents, number: int) -> None:
        self._events = events
        self._number = number
        self._row = number if number < events.rows.first_step else None

    def __getattr__(self, name: str) -> Any:
        make = type(self)._LAZY.get(name)
        if make is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        value = make(self)
        self.__dict__[name] = value
        return value

    @property
    def key(self) -> str:
        """What averages are grouped by."""
        return self.name

    @property
    def self_cpu_time_total(self) -> float:
        """Its duration without that of its synchronous children, in microseconds."""
        if self.is_async or self._is_on_device:
            return 0
        return int(self._events.rows.self_ns[self._number]) / _NS_PER_US

    @property
    def cpu_time_total(self) -> float:
        """Its duration, on the CPU, in microseconds."""
        if self._is_on_device:
            return 0
        return (self.end_ns - self.start_ns) / _NS_PER_US

    @property
    def device_time_total(self) -> float:
        """Of the work on devices that it and its children launched, in microseconds."""
        if self.is_async or not self.use_device:
            return 0
        return int(self._events.rows.total_device_ns[self._number]) / _NS_PER_US

    @property
    def self_device_time_total(self) -> float:
        """Of the work on devices that it launched itself, in microseconds."""
        if self.is_async or not self.use_device:
            return 0
        return int(self._events.rows.self_device_ns[self._number]) / _NS_PER_US

    @property
    def self_cpu_memory_usage(self) -> int:
        """Bytes allocated minus freed on the host, without its children."""
        return int(self._events.rows.memory[1][self._number])

    @property
    def self_device_memory_usage(self) -> int:
        """Bytes allocated minus freed on devices, without its children."""
        return int(self._events.rows.memory[3][self._number])

    @property
    def _kind(self) -> EventKind:
        """What it is; a step is a user scope, memory is `OTHER`."""
        if self._row is not None:
            return EventKind(int(self._events.rows.recording.events.kind[self._row]))
        return EventKind.USER if self._number < self._events.rows.first_memory else EventKind.OTHER

    @property
    def _track(self) -> Track:
        rows = self._events.rows
        return rows.recording.tracks[int(rows.track[self._number])]

    def _time_range(self) -> Interval:
        begin_ns = self._events.rows.recording.start_ns
        return Interval((self.start_ns - begin_ns) / _NS_PER_US, (self.end_ns - begin_ns) / _NS_PER_US)

    def _name(self) -> str:
        if self._row is not None:
            return self._events.name(self._row)
        rows = self._events.rows
        return STEP_NAME if self._kind == EventKind.USER else rows.memory_name(self._number)

    def _trace_name(self) -> str | None:
        rows = self._events.rows
        if self._row is not None:
            return self.name
        if self._kind == EventKind.USER:
            return f"ProfilerStep#{rows.steps[self._number - rows.first_step].number}"
        return None

    def _overload_name(self) -> str:
        recording = self._events.rows.recording
        if self._row is None or self._kind != EventKind.OP:
            return ""
        return recording.overload_name(int(recording.events.name[self._row]))

    def _thread(self) -> int:
        track = self._track
        return 0 if self._is_on_device else track.torch_thread_id or track.thread_id

    def _column(self, name: str, default: int) -> int:
        """A number that only rows of the recording have."""
        return (
            default
            if self._row is None
            else int(getattr(self._events.rows.recording.events, name)[self._row])
        )

    def _of_autograd(self, name: str, default: int) -> int:
        """A number that links a backward op to its forward op; what runs a node has that of the node."""
        value = self._column(name, default)
        if value != default or self._row is None or not self.name.startswith(_NODE_RUN):
            return value
        columns = self._events.rows.recording.events
        for child in self._events.rows.children(self._number):
            if columns.scope[child] == _BACKWARD_SCOPE:
                return int(getattr(columns, name)[child])
        return value

    def _scope(self) -> int:
        return self._column("scope", _USER_SCOPE if self._kind == EventKind.USER else 0)

    @property
    def _is_on_device(self) -> bool:
        return self._events.rows.is_on_device(self._number)

    def _inputs(self) -> InputsView:
        return InputsView(() if self._row is None else self._events.rows.recording.inputs(self._row) or ())

    def _stack(self) -> list[str]:
        return [] if self._row is None else self._events.stack(self._row)

    def _cpu_parent(self) -> RecordedEvent | None:
        parent = int(self._events.rows.parent[self._number])
        return None if parent < 0 else self._events.event(parent)

    def _cpu_children(self) -> list[RecordedEvent]:
        return [self._events.event(child) for child in self._events.rows.children(self._number)]

    @property
    def launcher(self) -> RecordedEvent | None:
        """The event that launched it; None for what is no work of a device."""
        number = self._events.rows.launcher.get(self._number)
        return None if number is None else self._events.event(number)

    @property
    def process_id(self) -> int:
        """The process it ran in; of what ran on a device the number of that."""
        track = self._track
        return max(track.device, 0) if self._is_on_device else track.process_id

    def _kernels(self) -> list[Kernel]:
        rows = self._events.rows
        recording = rows.recording
        return [
            Kernel(
                recording.event_name(row),
                max(recording.tracks[int(recording.events.track[row])].device, 0),
                int(rows.end_ns[row] - rows.start_ns[row]) / _NS_PER_US,
            )
            for row in rows.launched.get(self._number, ())
        ]

    def _flops(self) -> int:
        return self._events.flops.get(self._number, 0)

    def _end_thread(self) -> int:
        recording = self._events.rows.recording
        if self._row is None or not int(recording.events.flags[self._row]) & EventFlags.OTHER_THREAD:
            return self.thread
        track = recording.tracks[int(recording.events.end_track[self._row])]
        return track.torch_thread_id or track.thread_id

    def _correlation(self) -> int:
        correlations = self._events.rows.recording.events.correlation
        if self._row is None or not len(correlations):
            return 0
        return max(int(correlations[self._row]), 0)


RecordedEvent._LAZY = {
    "id": lambda event: event._number + 1,
    "name": RecordedEvent._name,
    "trace_name": RecordedEvent._trace_name,
    "overload_name": RecordedEvent._overload_name,
    "start_ns": lambda event: int(event._events.rows.start_ns[event._number]),
    "end_ns": lambda event: int(event._events.rows.end_ns[event._number]),
    "time_range": RecordedEvent._time_range,
    "thread": RecordedEvent._thread,
    "scope": RecordedEvent._scope,
    "sequence_nr": lambda event: event._of_autograd("sequence", -1),
    "fwd_thread": lambda event: event._of_autograd("forward_thread", 0),
    "is_async": lambda event: bool(event._column("flags", 0) & _ASYNC),
    "is_user_annotation": lambda event: event._kind in {EventKind.USER, EventKind.ANNOTATION},
    "is_python_function": lambda event: event._kind in PYTHON_KINDS,
    "activity_type": lambda event: activity_type_of(event._kind),
    "use_device": lambda event: event._events.rows.options.use_device,
    "device_type": lambda event: event._events.device if event._is_on_device else event._events.host,
    "device_index": lambda event: max(event._track.device, 0),
    "device_resource_id": lambda event: event._track.thread_id,
    "input_shapes": lambda event: event._inputs().shapes,
    "structured_input_shapes": lambda event: event._inputs().structured_shapes,
    "structured_input_strides": lambda event: event._inputs().structured_strides,
    "input_dtypes": lambda event: event._inputs().dtypes,
    "concrete_inputs": lambda event: event._inputs().concrete,
    "kwinputs": lambda event: {},
    "stack": RecordedEvent._stack,
    "cpu_parent": RecordedEvent._cpu_parent,
    "cpu_children": RecordedEvent._cpu_children,
    "kernels": RecordedEvent._kernels,
    "flops": RecordedEvent._flops,
    "end_thread": RecordedEvent._end_thread,
    "cpu_memory_usage": lambda event: int(event._events.rows.memory[0][event._number]),
    "device_memory_usage": lambda event: int(event._events.rows.memory[2][event._number]),
    "linked_correlation_id": RecordedEvent._correlation,
    "external_id": lambda event: event.id,
    "metadata_json": lambda event: "",
    "event_metadata": lambda event: None,
    "extra_meta": lambda event: None,
    "flow_id": lambda event: 0,
    "flow_type": lambda event: 0,
    "flow_start": lambda event: False,
    "python_id": lambda event: -1,
    "python_parent_id": lambda event: -1,
    "python_module_id": lambda event: -1,
}


def _frame(frame: StackFrame) -> str:
    return python_name(frame.function, f"{frame.file}:{frame.line}" if frame.file else "")
