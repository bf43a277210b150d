"""torch.autograd.profiler's interface, the older one, on our own recorder.

`from otel_torchprof import autograd_profiler as profiler`, then as before: `with profiler.profile() as prof`.
"""

from __future__ import annotations

import importlib
import os
import uuid
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from otel_torchprof.importers import load
from otel_torchprof.profiling.activities import privateuse1_name
from otel_torchprof.profiling.emit_ranges import emit_itt, emit_nvtx
from otel_torchprof.profiling.event_list import EventList
from otel_torchprof.profiling.event_rows import EventRows, ViewOptions
from otel_torchprof.profiling.function_event import FunctionEvent, Interval, Kernel
from otel_torchprof.profiling.function_event_avg import FunctionEventAvg
from otel_torchprof.profiling.kineto_results import KinetoResults
from otel_torchprof.profiling.recorded_event import RecordedEvent, RecordedEvents
from otel_torchprof.profiling.results import Results
from otel_torchprof.profiling.trace_profile import TraceProfile

if TYPE_CHECKING:
    from torch.autograd.profiler import (
        EnforceUnique,
        KinetoStepTracker,
        MemRecordsAcc,
        record_function,
    )
    from torch.autograd.profiler_util import StringTable
    from typing_extensions import Self

    from otel_torchprof.recorder.capture_options import DeviceEvents

__all__ = [
    "EnforceUnique",
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "Interval",
    "Kernel",
    "KinetoStepTracker",
    "MemRecordsAcc",
    "StringTable",
    "emit_itt",
    "emit_nvtx",
    "load_nvprof",
    "parse_nvprof_trace",
    "profile",
    "record_function",
]

# Torch's own: what marks a scope is one for all, and the count of steps is that of the process.
_TORCHS_OWN = {
    "EnforceUnique": "torch.autograd.profiler",
    "KinetoStepTracker": "torch.autograd.profiler",
    "MemRecordsAcc": "torch.autograd.profiler",
    "StringTable": "torch.autograd.profiler_util",
    "_is_profiler_enabled": "torch.autograd.profiler",
    "_run_on_profiler_start": "torch.autograd.profiler",
    "_run_on_profiler_stop": "torch.autograd.profiler",
    "_set_is_profiler_enabled": "torch.autograd.profiler",
    "record_function": "torch.autograd.profiler",
}
_UNFINISHED = "<unfinished torch.autograd.profile>"


class profile:
    """Records every op of every thread inside `with`; once.

    Args:
        enabled: False makes it do nothing.
        use_cuda, use_xpu, use_mtia: torch's deprecated ways to name the device.
        use_device: the kind of device whose work is shown, as "cuda"; None = none.
        use_kineto: False has a device of an extension (torch's PrivateUse1) timed by events around each op,
            and not through torch.profiler. CUDA is, whatever it says, where CUPTI cannot record its kernels.
        use_cpu: False shows devices, and the calls to them, alone.
        activity_filters: as dictionaries among the activities of `otel_torchprof.profile`.
        record_shapes, with_flops, profile_memory, with_stack, with_modules, experimental_config, acc_events,
            custom_trace_id_callback, post_processing_timeout_s: see `otel_torchprof.profile`.

    Raises:
        ValueError: the timeout is negative.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_xpu: bool = False,
        use_mtia: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: dict[Any, set[str]] | None = None,
    ) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes or with_flops
        self.with_flops = with_flops
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_modules = with_modules
        self.use_cpu = use_cpu
        self.use_cuda = use_cuda
        self.use_kineto = use_kineto
        self.acc_events = acc_events
        self.use_device = _device(use_device, {"cuda": use_cuda, "xpu": use_xpu, "mtia": use_mtia})
        self._options = {
            "record_shapes": record_shapes,
            "with_flops": with_flops,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_modules": with_modules,
            "experimental_config": experimental_config,
            "acc_events": acc_events,
            "custom_trace_id_callback": custom_trace_id_callback,
            "post_processing_timeout_s": post_processing_timeout_s,
        }
        self._filters = activity_filters or {}
        self._trace: TraceProfile | None = None
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        activities = _activities(self.use_cpu, self.use_device, self._filters)
        events = _device_events(self.use_device, self.use_kineto) if self.use_cpu else None
        trace = TraceProfile(
            activities=activities,
            device_events=events,
            recorder="native" if events == "privateuse1" else None,
            **self._options,
        )
        trace.start()
        self.entered = True
        self._trace = trace
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._trace is not None:
            self._trace.stop()

    @property
    def function_events(self) -> EventList[RecordedEvent] | None:
        """The events; None before the end."""
        results = self._results
        return None if results is None else results.function_events

    @property
    def kineto_results(self) -> KinetoResults | None:
        """The events as torch's lower level has them; None before the end."""
        results = self._results
        return None if results is None else results.kineto_results

    @property
    def trace_id(self) -> str:
        """The id of the trace; empty before it begins."""
        return "" if self._trace is None else self._trace.get_trace_id() or ""

    def create_trace_id(self) -> str:
        """A new id: what `custom_trace_id_callback` gives, else a random one."""
        callback = self._options["custom_trace_id_callback"]
        return callback() if callback is not None else self.default_trace_id()

    def default_trace_id(self) -> str:
        """A random id: 128 bits in hexadecimal."""
        return uuid.uuid4().hex.upper()

    def config(self, create_trace_id: bool = False) -> Any:
        """The same wishes for torch's own recorder, as its `ProfilerConfig`.

        Args:
            create_trace_id: with a new id in it, instead of `trace_id`.
        """
        torchs = importlib.import_module("torch._C._profiler")
        return torchs.ProfilerConfig(
            torchs.ProfilerState.KINETO,
            self.record_shapes,
            self.profile_memory,
            self.with_stack,
            self.with_flops,
            self.with_modules,
            self._options["experimental_config"] or torchs._ExperimentalConfig(),
            self.create_trace_id() if create_trace_id else self.trace_id,
        )

    def table(self, *arguments: Any, **options: Any) -> str:
        """The events as a table: see `EventList.table`.

        Raises:
            RuntimeError: recording has not ended.
        """
        return self._finished().table(*arguments, **options)

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList[FunctionEventAvg]:
        """Averages by name: see `Results.key_averages`.

        Raises:
            RuntimeError: recording has not ended.
        """
        return self._finished().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """The sum of all events.

        Raises:
            RuntimeError: recording has not ended.
        """
        return self._finished().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Self time of all events on threads, in microseconds.

        Raises:
            RuntimeError: recording has not ended.
        """
        return self._finished().self_cpu_time_total

    def export_chrome_trace(
        self,
        path: str | os.PathLike[str],
        metadata: dict[str, Any] | None = None,
        use_python_export: bool = False,
    ) -> None:
        """Writes a Chrome trace: see `Results.export_chrome_trace`.

        Raises:
            RuntimeError: recording has not ended.
            OSError: it cannot be written.
        """
        self._finished().export_chrome_trace(path, metadata, use_python_export)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Writes folded stacks: see `Results.export_stacks`.

        Raises:
            RuntimeError: recording has not ended.
            ValueError: there is no such metric.
            OSError: it cannot be written.
        """
        self._finished().export_stacks(path, metric)

    def toggle_collection_dynamic(self, enabled: bool, activities: Iterable[Any]) -> None:
        """Leaves out what begins from now on, or records it again."""
        if self._trace is not None:
            self._trace.toggle_collection_dynamic(enabled, activities)

    def __repr__(self) -> str:
        results = self._results
        return _UNFINISHED if results is None else repr(results.function_events)

    def __str__(self) -> str:
        results = self._results
        return _UNFINISHED if results is None else str(results.function_events)

    @property
    def _results(self) -> Results | None:
        return None if self._trace is None else self._trace.profiler

    def _finished(self) -> Results:
        results = self._results
        if results is None:
            raise RuntimeError("there is no recording yet: leave the `with` block first")
        return results


def load_nvprof(path: str | os.PathLike[str]) -> EventList[Any]:
    """The events of an nvprof database.

    Raises:
        UnreadableInputError: it cannot be read.
    """
    return EventList(parse_nvprof_trace(path), use_device="cuda")


def parse_nvprof_trace(path: str | os.PathLike[str]) -> RecordedEvents:
    """As `load_nvprof`, without the list around it."""
    recording, _report = load(Path(path))
    return RecordedEvents(EventRows(recording, ViewOptions(use_device="cuda")))


def _device(use_device: str | None, older: dict[str, bool]) -> str | None:
    for name, is_wanted in older.items():
        if is_wanted:
            warnings.warn(
                f"`use_{name}` is deprecated, please use `use_device = '{name}'` instead.",
                FutureWarning,
                stacklevel=3,
            )
            use_device = name
    if use_device is None:
        return None
    module = getattr(importlib.import_module("torch"), use_device, None)
    if module is None or not getattr(module, "is_available", lambda: False)():
        warnings.warn(
            f"{use_device.upper()} is not available, so none is profiled", UserWarning, stacklevel=3
        )
        return None
    return use_device


def _device_events(use_device: str | None, use_kineto: bool) -> DeviceEvents | None:
    """What times the ops on a device that is not traced."""
    if use_device is None:
        return None
    if use_device == "cuda":
        return "cuda"
    is_extension = use_device == privateuse1_name()
    return "privateuse1" if is_extension and not use_kineto else None


def _activities(use_cpu: bool, use_device: str | None, filters: dict[Any, set[str]]) -> list[Any]:
    kinds = importlib.import_module("torch.profiler").ProfilerActivity
    wanted = [kinds.CPU] if use_cpu else []
    if use_device is not None:
        wanted.append(getattr(kinds, use_device.upper(), kinds.PrivateUse1))
    return [{kind: sorted(filters[kind])} if kind in filters else kind for kind in wanted]


def __getattr__(name: str) -> Any:
    if name in _TORCHS_OWN:
        return getattr(importlib.import_module(_TORCHS_OWN[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
