"""Events of a recording, each made when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload
from weakref import WeakValueDictionary

from otel_torchprof.profiling.event_names import event_name, python_name
from otel_torchprof.profiling.event_rows import STEP_NAME, EventRows
from otel_torchprof.profiling.flops import flops_by_row
from otel_torchprof.profiling.function_event import FunctionEvent, Interval, Kernel
from otel_torchprof.profiling.inputs_view import InputsView
from otel_torchprof.recording import EventFlags, EventKind, StackFrame

_NS_PER_US = 1000
_BACKWARD_SCOPE = 1
_USER_SCOPE = 7
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
}


class RecordedEvents(Sequence["RecordedEvent"]):
    """The events of a recording by start. The same event is the same object as long as anybody holds it."""

    def __init__(self, rows: EventRows) -> None:
        from torch.autograd import DeviceType

        self.rows = rows
        self.host = DeviceType.CPU
        self.device = getattr(DeviceType, (rows.options.use_device or "cuda").upper(), DeviceType.CUDA)
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

    @cached_property
    def _forward_rows(self) -> dict[int, int]:
        backward, forward = self.rows.recording.links.forward_backward_links()
        return dict(zip(backward.tolist(), forward.tolist(), strict=True))


class RecordedEvent(FunctionEvent):
    """One event of a recording: what takes time to find is found when it is asked for."""

    _LAZY: dict[str, Callable[[RecordedEvent], Any]]

    def __init__(self, events: RecordedEvents, number: int) -> None:
        self._events = events
        self._number = number
        rows = events.rows
        recording = rows.recording
        self._row = row = number if number < rows.first_step else None
        self.start_ns = int(rows.start_ns[number])
        self.end_ns = int(rows.end_ns[number])
        begin_ns = recording.start_ns
        self.time_range = Interval(
            (self.start_ns - begin_ns) / _NS_PER_US, (self.end_ns - begin_ns) / _NS_PER_US
        )
        track = recording.tracks[int(rows.track[number])]
        on_device = rows.is_on_device(number)
        self.thread = 0 if on_device else track.torch_thread_id or track.thread_id
        self.device_type = events.device if on_device else events.host
        self.device_index = max(track.device, 0)
        self.device_resource_id = track.thread_id
        self.use_device = rows.options.use_device
        self.id = number + 1
        self.count = 1
        self.node_id = -1
        self.is_legacy = self.is_remote = False
        self.scope, self.sequence_nr, self.fwd_thread = 0, -1, 0
        self.is_async = False
        self.is_python_function = False
        self.is_user_annotation = False
        self.overload_name = ""
        if row is None:
            self._name_extra(number)
        else:
            self._read_row(row)

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
        if self.is_async or self._events.rows.is_on_device(self._number):
            return 0
        return int(self._events.rows.self_ns[self._number]) / _NS_PER_US

    @property
    def cpu_time_total(self) -> float:
        """Its duration, on the CPU, in microseconds."""
        return 0 if self._events.rows.is_on_device(self._number) else self.time_range.elapsed_us()

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

    def _name_extra(self, number: int) -> None:
        rows = self._events.rows
        if number < rows.first_memory:
            self.name = STEP_NAME
            self.trace_name = f"ProfilerStep#{rows.steps[number - rows.first_step].number}"
            self.activity_type = "user_annotation"
            self.is_user_annotation = True
            self.scope = _USER_SCOPE
        else:
            self.name = rows.memory_name(number)
            self.trace_name = None
            self.activity_type = "cpu_instant_event"

    def _read_row(self, row: int) -> None:
        recording = self._events.rows.recording
        columns = recording.events
        name_id, kind = int(columns.name[row]), EventKind(int(columns.kind[row]))
        self.name = event_name(recording, name_id, kind)
        self.trace_name = self.name
        self.overload_name = recording.overload_name(name_id) if kind == EventKind.OP else ""
        self.scope = int(columns.scope[row])
        self.sequence_nr = int(columns.sequence[row])
        self.fwd_thread = int(columns.forward_thread[row])
        self.is_async = bool(int(columns.flags[row]) & (EventFlags.ASYNC | EventFlags.OTHER_THREAD))
        self.is_user_annotation = kind in {EventKind.USER, EventKind.ANNOTATION}
        self.is_python_function = kind in {EventKind.PYTHON, EventKind.PYTHON_C, EventKind.MODULE}
        self.activity_type = _ACTIVITY_TYPES.get(kind, "")

    def _inputs(self) -> InputsView:
        return InputsView(() if self._row is None else self._events.rows.recording.inputs(self._row) or ())

    def _stack(self) -> list[str]:
        return [] if self._row is None else self._events.stack(self._row)

    def _cpu_parent(self) -> RecordedEvent | None:
        parent = int(self._events.rows.parent[self._number])
        return None if parent < 0 else self._events.event(parent)

    def _cpu_children(self) -> list[RecordedEvent]:
        return [self._events.event(child) for child in self._events.rows.children(self._number)]

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
