"""A cycle in the shape of torch's `_ProfilerResult`, which tools reach by `prof.profiler.kineto_results`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from otel_torchprof.exporters import chrome
from otel_torchprof.profiling.event_tree import TreeEvent, event_tree
from otel_torchprof.profiling.recorded_event import RecordedEvent, RecordedEvents, activity_type_of


class KinetoResults:
    """Events and their tree, as torch's lower level has them."""

    def __init__(self, events: RecordedEvents) -> None:
        self._events = events

    def events(self) -> Sequence[KinetoEvent]:
        """The events by start; each is made when it is asked for."""
        return _KinetoEvents(self._events)

    def trace_activities(self) -> list[TraceActivity]:
        """The events by start, as the lines of a Chrome trace; memory outside events is none."""
        kinds = self._events.rows.options.left_out_of_traces
        left_out = {"cpu_instant_event", *map(activity_type_of, kinds)}
        return [TraceActivity(event) for event in self._events if event.activity_type not in left_out]

    def trace_start_ns(self) -> int:
        """When the cycle began, unix ns."""
        return self._events.rows.recording.start_ns

    def experimental_event_tree(self) -> list[TreeEvent]:
        """The outermost events by start, with what they enclose below them."""
        return self._tree

    @cached_property
    def _tree(self) -> list[TreeEvent]:
        return event_tree(self._events.rows)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the cycle as a Chrome trace.

        Raises:
            OSError: it cannot be written.
        """
        rows = self._events.rows
        chrome.write_trace(rows.recording, Path(path), left_out=rows.options.left_out_of_traces)


class _KinetoEvents(Sequence["KinetoEvent"]):
    def __init__(self, events: RecordedEvents) -> None:
        self._events = events

    def __len__(self) -> int:
        return len(self._events)

    @overload
    def __getitem__(self, index: int) -> KinetoEvent: ...

    @overload
    def __getitem__(self, index: slice) -> list[KinetoEvent]: ...

    def __getitem__(self, index: int | slice) -> KinetoEvent | list[KinetoEvent]:
        found = self._events[index]
        return [*map(KinetoEvent, found)] if isinstance(found, list) else KinetoEvent(found)

    def __iter__(self) -> Iterator[KinetoEvent]:
        return map(KinetoEvent, self._events)


class TraceActivity:
    """One event as Kineto has it, whose fields are methods."""

    def __init__(self, event: RecordedEvent) -> None:
        self._event = event

    def name(self) -> str:
        """Its name; of a step `ProfilerStep#<number>`."""
        return self._event.trace_name or self._event.name

    def type(self) -> str:
        """Its category in a Chrome trace, such as `cpu_op`."""
        return str(self._event.activity_type)

    def timestamp(self) -> int:
        """Start, unix ns."""
        return self._event.start_ns

    def duration(self) -> int:
        """End minus start, in ns."""
        return self._event.end_ns - self._event.start_ns

    def device_id(self) -> int:
        """The number of the device; of what runs on threads the process."""
        return self._event.process_id

    def resource_id(self) -> int:
        """The stream, or the thread as the operating system numbers it."""
        return int(self._event.device_resource_id)

    def correlation_id(self) -> int:
        """Its own number."""
        return int(self._event.id)

    def linked_correlation_id(self) -> int:
        """What a launch and the work it launched have in common; 0 = nothing."""
        return int(self._event.linked_correlation_id)

    def linked_activity(self) -> TraceActivity | None:
        """The op that launched it; None for what no op launched."""
        launcher = self._event.launcher
        return None if launcher is None else TraceActivity(launcher)

    def flow_id(self) -> int:
        """The number of the arrow that starts or ends here: 0, arrows are written from links."""
        return 0

    def flow_type(self) -> int:
        """As `flow_id`."""
        return 0

    def flow_start(self) -> bool:
        """As `flow_id`."""
        return False

    def metadata_json(self) -> str:
        """More fields of its line: empty, they are made when a trace is written."""
        return ""


# Torch's methods of an event, by the attribute of ours that each of them returns.
_METHODS = {
    "activity_type": "activity_type",
    "concrete_inputs": "concrete_inputs",
    "correlation_id": "id",
    "device_index": "device_index",
    "device_resource_id": "device_resource_id",
    "device_type": "device_type",
    "dtypes": "input_dtypes",
    "external_id": "external_id",
    "flops": "flops",
    "flow_id": "flow_id",
    "flow_start": "flow_start",
    "flow_type": "flow_type",
    "fwd_thread_id": "fwd_thread",
    "is_async": "is_async",
    "is_python_function": "is_python_function",
    "is_user_annotation": "is_user_annotation",
    "kwinputs": "kwinputs",
    "linked_correlation_id": "linked_correlation_id",
    "metadata_json": "metadata_json",
    "overload_name": "overload_name",
    "python_id": "python_id",
    "python_module_id": "python_module_id",
    "python_parent_id": "python_parent_id",
    "scope": "scope",
    "sequence_nr": "sequence_nr",
    "shapes": "input_shapes",
    "stack": "stack",
    "start_thread_id": "thread",
    "structured_input_shapes": "structured_input_shapes",
    "structured_input_strides": "structured_input_strides",
}


class KinetoEvent:
    """One event, whose fields are methods."""

    def __init__(self, event: RecordedEvent) -> None:
        self._event = event

    def __getattr__(self, name: str) -> Any:
        attribute = _METHODS.get(name)
        if attribute is None:
            raise AttributeError(f"'KinetoEvent' object has no attribute {name!r}")
        return lambda: getattr(self._event, attribute)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *_METHODS})

    def name(self) -> str:
        """Its name; of a step `ProfilerStep#<number>`."""
        return self._event.trace_name or self._event.name

    def start_ns(self) -> int:
        """Start, unix ns."""
        return self._event.start_ns

    def end_ns(self) -> int:
        """End, unix ns."""
        return self._event.end_ns

    def duration_ns(self) -> int:
        """End minus start."""
        return self._event.end_ns - self._event.start_ns

    def end_thread_id(self) -> int:
        """The thread it ended on."""
        thread: int = self._event.end_thread
        return thread

    def nbytes(self) -> int:
        """Bytes of an allocation (positive) or a free (negative) outside events, else 0."""
        if self._event.activity_type != "cpu_instant_event":
            return 0
        return int(self._event.cpu_memory_usage + self._event.device_memory_usage)

    def extra_meta(self) -> dict[str, str]:
        """What a trace said of an imported event."""
        return {}

    def is_hidden_event(self) -> bool:
        """Whether it is for the profiler itself; such events are left out."""
        return False

    def cuda_elapsed_us(self) -> int:
        """The time between two events of a device around it, where it was measured so: -1 = it was not."""
        return -1

    def privateuse1_elapsed_us(self) -> int:
        """As `cuda_elapsed_us`, of other devices."""
        return -1
