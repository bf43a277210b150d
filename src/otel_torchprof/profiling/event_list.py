"""Events and averages as a list, in the shape of torch's `EventList`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.profiling.function_event_avg import FunctionEventAvg
from otel_torchprof.profiling.table import (
    TableContents,
    TableLimits,
    TableTotals,
    device_attribute,
    look_through,
    make_table,
    sum_up,
)

E = TypeVar("E")
STACK_METRICS = (
    "self_cpu_time_total",
    "self_cuda_time_total",
    "self_xpu_time_total",
    "self_privateuse1_time_total",
)
_FOLDED_CHARACTERS = str.maketrans(" ;\t\n", "____")


@runtime_checkable
class _Countable(Protocol):
    """Events that know what a table says of all of them without making each."""

    def totals(self) -> TableTotals: ...

    def contents(self) -> TableContents: ...


class EventList(MutableSequence[E]):
    """A list of events or of averages. A sequence is kept as it is until the list is changed.

    Args:
        items: the events.
        use_device: what tables call devices.
        profile_memory: whether tables show memory.
        with_flops: whether tables show FLOPs.
    """

    def __init__(
        self,
        items: Iterable[E] = (),
        *,
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        self._items: Sequence[E] = items if isinstance(items, Sequence) else list(items)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, index: int) -> E: ...

    @overload
    def __getitem__(self, index: slice) -> list[E]: ...

    def __getitem__(self, index: int | slice) -> E | list[E]:
        return list(self._items[index]) if isinstance(index, slice) else self._items[index]

    def __iter__(self) -> Iterator[E]:
        return iter(self._items)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._own()[index] = value

    def __delitem__(self, index: int | slice) -> None:
        del self._own()[index]

    def copy(self) -> list[E]:
        """The events as an ordinary list."""
        return list(self._items)

    def insert(self, index: int, value: E) -> None:
        """Inserts an event before `index`."""
        self._own().insert(index, value)

    def sort(self, *, key: Callable[[E], Any], reverse: bool = False) -> None:
        """Sorts the events in place."""
        self._own().sort(key=key, reverse=reverse)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (EventList, list)) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Iterable[E]) -> list[E]:
        return [*self, *other]

    def _own(self) -> list[E]:
        if not isinstance(self._items, list):
            self._items = list(self._items)
        return self._items

    def __repr__(self) -> str:
        return repr(list(self))

    def __str__(self) -> str:
        return self.table()

    @property
    def self_cpu_time_total(self) -> float:
        """Self time of all events, in microseconds."""
        return self._totals().self_cpu_us

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int | None = 75,
        max_name_column_width: int | None = 55,
        max_shapes_column_width: int | None = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a table.

        Args:
            sort_by: an attribute such as `self_cpu_time_total` or `count`, greatest first; None keeps the
                order.
            row_limit: how many rows at most, -1 = all.
            max_src_column_width, max_name_column_width, max_shapes_column_width: in characters; None = as
                wide as needed.
            header: a line above.
            top_level_events_only: only what no other event encloses.
            time_unit: "s", "ms" or "us" for all times; None takes what fits each.

        Raises:
            AttributeError: there is no attribute `sort_by`.
        """
        limits = TableLimits(
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            top_level_events_only,
            time_unit,
        )
        return make_table(
            self,
            sort_by=sort_by,
            header=header,
            limits=limits,
            with_memory=self._profile_memory,
            with_flops=self._with_flops,
            totals=self._totals(),
            contents=self._contents(),
        )

    def _totals(self) -> TableTotals:
        return self._items.totals() if isinstance(self._items, _Countable) else sum_up(self._items)

    def _contents(self) -> TableContents:
        return self._items.contents() if isinstance(self._items, _Countable) else look_through(self._items)

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList[FunctionEventAvg]:
        """Averages by name and, on request, shapes, the innermost frames of the stack, and overload."""
        groups: dict[tuple[Any, ...], FunctionEventAvg] = {}
        for event in self._each():
            key: list[Any] = [event.key, event.node_id, str(event.device_type), event.is_user_annotation]
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key.extend((event.stack or ())[:group_by_stack_n])
            groups.setdefault(tuple(key), FunctionEventAvg()).add(event)
        for average in groups.values():
            average.stack = (average.stack or [])[:group_by_stack_n]
            average.input_shapes = average.input_shapes if group_by_input_shapes else ""
            average.overload_name = average.overload_name if group_by_overload_name else ""
        return EventList(
            list(groups.values()),
            use_device=self._use_device,
            profile_memory=self._profile_memory,
            with_flops=self._with_flops,
        )

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events, with the key `Total`."""
        total = FunctionEventAvg()
        for event in self._each():
            if total.key is None:
                total.add(event)
            else:
                total.add_numbers(event)
        total.key = "Total"
        return total

    def supported_export_stacks_metrics(self) -> list[str]:
        """What `export_stacks` takes as its metric."""
        return list(STACK_METRICS)

    def export_stacks(self, path: str | os.PathLike[str], metric: str) -> None:
        """Writes the Python stacks of the events, folded: `outer;inner <microseconds>`, equal ones added up.

        Raises:
            ValueError: there is no such metric.
            OSError: it cannot be written.
        """
        attribute = stack_metric(metric)
        sums: dict[str, float] = {}
        for event in self._each():
            if event.stack:
                stack = ";".join(frame.translate(_FOLDED_CHARACTERS) for frame in reversed(event.stack))
                sums[stack] = sums.get(stack, 0) + getattr(event, attribute)
        with OutputFile(Path(path)) as file:
            file.write("".join(f"{stack} {round(us)}\n" for stack, us in sums.items()).encode())

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Writes the events as a Chrome trace.

        Raises:
            OSError: it cannot be written.
        """
        slices = [
            {
                "name": event.trace_name,
                "ph": "X",
                "ts": event.time_range.start,
                "dur": event.time_range.elapsed_us(),
                "tid": event.thread,
                "pid": "CPU functions",
                "args": {},
            }
            for event in self._each()
            if event.trace_name is not None
        ]
        with OutputFile(Path(path)) as file:
            file.write(json.dumps(slices).encode())

    def _each(self) -> Iterable[Any]:
        return self._items


def stack_metric(metric: str) -> str:
    """The attribute of a metric of `export_stacks`.

    Raises:
        ValueError: there is no such metric.
    """
    if metric not in STACK_METRICS:
        raise ValueError(f"metric should be one of {', '.join(STACK_METRICS)}, not {metric!r}")
    return device_attribute(metric)
