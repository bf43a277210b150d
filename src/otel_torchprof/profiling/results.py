"""What a profile recorded, in the shape of torch's results: events, averages, tables and files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from otel_torchprof.exporters import chrome
from otel_torchprof.profiling.event_list import EventList
from otel_torchprof.profiling.event_rows import EventRows, ViewOptions
from otel_torchprof.profiling.function_event_avg import FunctionEventAvg
from otel_torchprof.profiling.key_averages import key_averages
from otel_torchprof.profiling.kineto_results import KinetoResults
from otel_torchprof.profiling.recorded_event import RecordedEvent, RecordedEvents
from otel_torchprof.profiling.stacks import export_stacks
from otel_torchprof.recording import Recording


class Results:
    """The results of one cycle, and with `acc_events` of those before it.

    Args:
        recordings: of the latest cycle first.
        options: how they are looked at.
    """

    def __init__(self, recordings: Sequence[Recording], options: ViewOptions) -> None:
        self.recordings = tuple(recordings)
        self.options = options

    @property
    def recording(self) -> Recording:
        """Of the latest cycle."""
        return self.recordings[0]

    @property
    def kineto_results(self) -> KinetoResults:
        """The latest cycle as torch's lower level has it."""
        return self._kineto_results

    @cached_property
    def _kineto_results(self) -> KinetoResults:
        return KinetoResults(self._views[0])

    @cached_property
    def function_events(self) -> EventList[RecordedEvent]:
        """The events by start, of each cycle; each is made when it is asked for."""
        views = self._views
        return self._listed(views[0] if len(views) == 1 else [event for view in views for event in view])

    def events(self) -> EventList[RecordedEvent]:
        """As `function_events`."""
        return self.function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList[FunctionEventAvg]:
        """Averages by name.

        Args:
            group_by_input_shape: and by the shapes of inputs, which takes `record_shapes`.
            group_by_stack_n: and by so many innermost frames of the Python stack, which takes `with_stack`.
            group_by_overload_name: and by overload, as `aten::add.Tensor`.
        """
        if group_by_stack_n > 0:
            return self.function_events.key_averages(
                group_by_input_shape, group_by_stack_n, group_by_overload_name
            )
        found = [
            key_averages(view, by_shapes=group_by_input_shape, by_overload=group_by_overload_name)
            for view in self._views
        ]
        if len(found) == 1:
            return self._listed(found[0])
        return self._listed([average for averages in found for average in averages]).key_averages(
            group_by_input_shape, 0, group_by_overload_name
        )

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events."""
        return self.key_averages().total_average()

    def flops_coverage(self) -> float | None:
        """How much of the latest cycle its FLOPs speak for: a share of self time, from 0 to 1.

        Of the time on devices where there is any, else of that on threads: the part in ops with a formula
        and in what these called. None without any op. FLOPs take `with_flops`.
        """
        return self._views[0].flops_coverage()

    @property
    def self_cpu_time_total(self) -> float:
        """Self time of all events on threads, in microseconds."""
        return self.key_averages().self_cpu_time_total

    def table(self, *arguments: Any, **options: Any) -> str:
        """The events as a table: see `EventList.table`."""
        return self.function_events.table(*arguments, **options)

    def export_chrome_trace(
        self,
        path: str | os.PathLike[str],
        metadata: Mapping[str, Any] | None = None,
        use_python_export: bool = False,
    ) -> None:
        """Writes the latest cycle as Kineto would; `.gz` at the end of the name compresses it.

        Args:
            metadata: JSON values by name, which stand in the trace beside the events.
            use_python_export: torch's choice between two writers of its own; here there is one.

        Raises:
            OSError: it cannot be written; nothing is left behind.
        """
        chrome.write_trace(
            self.recording,
            Path(path),
            more_header=metadata or {},
            left_out=self.options.left_out_of_traces,
        )

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Writes the stacks of the latest cycle, folded: `outer;inner <microseconds>`, equal ones added up.

        Raises:
            ValueError: there is no such metric.
            OSError: it cannot be written.
        """
        export_stacks(self._views[0].rows, Path(path), metric)

    def __repr__(self) -> str:
        return repr(self.recording)

    def __str__(self) -> str:
        return self.table()

    @cached_property
    def _views(self) -> list[RecordedEvents]:
        return [RecordedEvents(EventRows(recording, self.options)) for recording in self.recordings]

    def _listed(self, items: Any) -> EventList[Any]:
        return EventList(
            items,
            use_device=self.options.use_device,
            profile_memory=self.options.profile_memory,
            with_flops=self.options.with_flops,
        )
