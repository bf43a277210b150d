"""Recording cycle after cycle, without a schedule: the lower half of `profile`."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from otel_torchprof.profiling.activities import (
    device_mode,
    device_of,
    has_cpu,
    parse_activities,
    seen_by_torch_alone,
    supported_activities,
    warn_of_missing,
)
from otel_torchprof.profiling.activity_filters import ActivityFilter, make_filter
from otel_torchprof.profiling.event_rows import PYTHON_KINDS, ViewOptions
from otel_torchprof.profiling.recorders import Fallback, Recorder, RecorderChoice
from otel_torchprof.profiling.results import Results
from otel_torchprof.profiling.step_contexts import StepContexts
from otel_torchprof.profiling.trace_metadata import TraceMetadata
from otel_torchprof.recorder.capture_options import (
    DEFAULT_BUFFER_SIZE_BYTES,
    CaptureOptions,
    CounterScope,
    DeviceEvents,
    DeviceGraphs,
    DeviceMode,
)
from otel_torchprof.recorder.step_details import STEP_HAS_NUMBER, STEP_PARTIAL

if TYPE_CHECKING:
    from otel_torchprof.analysis.patterns import PatternReport
    from otel_torchprof.profiling.event_list import EventList
    from otel_torchprof.profiling.function_event_avg import FunctionEventAvg
    from otel_torchprof.profiling.memory_view import MemoryTimeline
    from otel_torchprof.profiling.recorded_event import RecordedEvent
    from otel_torchprof.recorder.capture import Capture
    from otel_torchprof.recording import Recording
    from otel_torchprof.torch_fallback import TorchCapture

_NOT_RECORDING = "the profile does not record: call start(), or use `with`, first"


class TraceProfile:
    """Records from `start_trace()` to `stop_trace()`, as often as wanted; see `profile` for the arguments."""

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        counters: Sequence[str] = (),
        counter_scope: CounterScope = "span",
        device: DeviceMode = "auto",
        device_graphs: DeviceGraphs = "nodes",
        device_events: DeviceEvents | None = None,
        path: str | os.PathLike[str] | None = None,
        buffer_size_bytes: int = DEFAULT_BUFFER_SIZE_BYTES,
        fallback: Fallback | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        if counter_scope not in {"span", "op"}:
            raise ValueError(f'counter_scope must be "span" or "op", not {counter_scope!r}')
        if device not in {"auto", "off", "on"}:
            raise ValueError(f'device must be "auto", "off" or "on", not {device!r}')
        if device_graphs not in {"nodes", "whole"}:
            raise ValueError(f'device_graphs must be "nodes" or "whole", not {device_graphs!r}')
        if post_processing_timeout_s is not None and post_processing_timeout_s < 0:
            raise ValueError("post_processing_timeout_s must be non-negative")
        self.options = CaptureOptions(
            record_shapes=record_shapes or with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
            counters=tuple(counters),
            counter_scope=counter_scope,
            device=device,
            device_graphs=device_graphs,
            device_events=device_events,
            buffer_size_bytes=buffer_size_bytes,
        )
        self._choice = RecorderChoice(recorder, fallback)
        self._activities: set[Any] | None = None
        self.activity_filters: dict[Any, set[str]] = {}
        if activities is not None:
            self._activities, self.activity_filters = parse_activities(activities)
            if not self._activities:
                raise AssertionError("No valid profiler activities found")
            if device_events is None:
                warn_of_missing(self._activities)
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.experimental_config = experimental_config
        self.execution_trace_observer = execution_trace_observer
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.post_processing_timeout_s = post_processing_timeout_s
        self.path = path
        self.record_steps = False
        """Whether steps are events too, named `ProfilerStep*`."""
        self.mem_tl: MemoryTimeline | None = None
        """What `export_memory_timeline` wrote last."""
        self._metadata = TraceMetadata()
        self._step_contexts = StepContexts()
        self._trace_id: str | None = None
        self._capture: Capture | TorchCapture | None = None
        self._cycles = 0
        self._earlier: list[Recording] = []
        self._results: Results | None = None

    @property
    def activities(self) -> set[Any]:
        """The `ProfilerActivity`s that are recorded."""
        return supported_activities() if self._activities is None else self._activities

    @property
    def _filter(self) -> ActivityFilter:
        """Of the activities that are there; torch does not look at the names of others."""
        return make_filter(self.activities & supported_activities(), self.activity_filters)

    @property
    def has_cudagraphs(self) -> bool:
        """Whether torch.compile makes CUDA graphs of what it compiles."""
        config = sys.modules.get("torch._inductor.config")
        return config is not None and bool(config.triton.cudagraphs)

    @property
    def use_device(self) -> str | None:
        """The kind of device among them, such as "cuda"; None = none."""
        return device_of(self.activities)

    @property
    def recorder(self) -> Recorder:
        """What records, which after `start()` may be the fallback."""
        return self._choice.recorder

    @property
    def fallback(self) -> Fallback | None:
        """What records where the recorder cannot."""
        return self._choice.fallback

    @property
    def profiler(self) -> Results | None:
        """What was recorded, in the shape of torch's lower level; None before the first cycle has ended."""
        return self._results

    @property
    def recording(self) -> Recording:
        """What was recorded in the latest cycle that has ended.

        Raises:
            RuntimeError: none has.
        """
        return self._finished().recording

    @property
    def preset_metadata(self) -> dict[str, str]:
        """What `preset_metadata_json` took."""
        return self._metadata.preset

    def start(self) -> None:
        """Begin to record: see `start_trace`."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Stop recording: see `stop_trace`."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Do what the next cycle needs and takes long, and give it an id.

        Raises:
            ImportError: torch is not installed.
            RuntimeError: an activity that is there is asked for what it has not.
        """
        self._filter.check()
        self._choice.for_devices(seen_by_torch_alone(self.activities))
        self._choice.make_ready()
        callback = self.custom_trace_id_callback
        self._trace_id = callback() if callback else uuid.uuid4().hex.upper()

    def start_trace(self) -> None:
        """Begin to record a cycle.

        Raises:
            ImportError: torch is not installed.
            BridgeUnavailable: ops cannot be recorded with this torch on this machine; it says what to do.
            OSError: the file cannot be made.
            RuntimeError: it records already, or too many do; through torch.profiler, another of it records.
        """
        if self._capture is not None:
            raise RuntimeError("a profile records once: make another")
        self._choice.for_devices(seen_by_torch_alone(self.activities))
        options = self.options
        if options.device == "auto":
            options = replace(options, device=device_mode(self.activities))
        kinds = self._filter.device_kinds
        options = replace(options, device_kinds=kinds, device="off" if kinds == () else options.device)
        self._capture = self._choice.start(self._cycle_path(), options)
        self._cycles += 1
        self._metadata.begin_cycle()
        self._add_known_metadata()
        if self.execution_trace_observer:
            self.execution_trace_observer.start()

    def stop_trace(self) -> None:
        """Stop recording the cycle.

        Raises:
            RuntimeError: it does not record; through torch.profiler, another of it took what was recorded.
            OSError: the recording cannot be saved.
        """
        capture = self._capture
        if capture is None:
            raise RuntimeError(_NOT_RECORDING)
        if self.execution_trace_observer:
            self.execution_trace_observer.stop()
        capture.add_metadata({"trace_metadata": self._metadata.values()})
        recording = capture.stop()
        self._capture = None
        self._earlier = [recording, *self._earlier] if self.acc_events else [recording]
        self._results = Results(self._earlier, self._view_options())

    def events(self) -> EventList[RecordedEvent]:
        """The events of the latest cycle that has ended; with `acc_events` also of those before.

        Raises:
            RuntimeError: none has.
        """
        return self._finished().function_events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList[FunctionEventAvg]:
        """Averages of those events by name: see `Results.key_averages`.

        Raises:
            RuntimeError: no cycle has ended.
        """
        return self._finished().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def patterns(self) -> PatternReport:
        """What makes the program slow, in the latest cycle that has ended: see `find_patterns`.

        Raises:
            RuntimeError: no cycle has ended.
        """
        from otel_torchprof.analysis.patterns import find_patterns

        return find_patterns(self.recording)

    def export_chrome_trace(self, path: str | os.PathLike[str], use_python_export: bool = False) -> None:
        """Write the latest cycle that has ended as a Chrome trace, for Perfetto and others.

        Args:
            path: the file; `.gz` at the end of the name compresses it.
            use_python_export: torch's choice between two writers of its own; here there is one.

        Raises:
            RuntimeError: no cycle has ended.
            OSError: it cannot be written.
        """
        self._finished().export_chrome_trace(path, self._metadata.values())

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write its stacks, folded: one line a stack, equal ones added up. `with_stack` adds Python calls.

        Args:
            metric: "self_cpu_time_total", or "self_cuda_time_total" for the device work that was launched.

        Raises:
            RuntimeError: no cycle has ended.
            ValueError: there is no such metric.
            OSError: it cannot be written.
        """
        self._finished().export_stacks(path, metric)

    def export_memory_timeline(self, path: str | os.PathLike[str], device: str | None = None) -> None:
        """Write what memory was used for over time, from a cycle recorded with `profile_memory`.

        Args:
            path: ends in `.html`, `.json`, `.json.gz` or `.raw.json.gz`.
            device: such as "cuda:0"; None takes the device that torch would.

        Raises:
            RuntimeError: no cycle has ended.
            ValueError: memory was not recorded.
            OSError: it cannot be written.
        """
        from otel_torchprof.profiling.memory_view import MemoryTimeline

        if not self.profile_memory:
            raise ValueError("profile_memory=True required for memory profiling.")
        self.mem_tl = MemoryTimeline(self.recording, self.use_device)
        self.mem_tl.export(Path(path), device)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any]) -> None:
        """Leave out what begins from now on, or record it again.

        Args:
            enable: record it.
            activities: `CPU` for ops and user scopes, any other for what devices are given.

        Raises:
            RuntimeError: what records the devices refused it; it says what to do.
        """
        if self._capture is None:
            return
        wanted = set(activities)
        if has_cpu(wanted):
            self._capture.record_ops(enable)
        if device_of(wanted) is not None:
            self._capture.record_devices(enable)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a string to the trace of the cycle, whatever is in it."""
        self._metadata.add(key, value)

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to the trace of the cycle; what is no JSON is kept as a string."""
        self._metadata.add_json(key, value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON value to the traces of all cycles that begin from now on."""
        self._metadata.preset[key] = value

    def set_custom_trace_id_callback(self, callback: Callable[[], str] | None) -> None:
        """Give the ids of the cycles that begin from now on; None gives random ones."""
        self.custom_trace_id_callback = callback

    def flops_coverage(self) -> float | None:
        """How much of the latest cycle its FLOPs speak for: see `Results.flops_coverage`.

        Raises:
            RuntimeError: no cycle has ended.
        """
        return self._finished().flops_coverage()

    def get_trace_id(self) -> str | None:
        """The id of the cycle under way, or of the last; None before the first."""
        return self._trace_id

    def _memory_profile(self) -> Any:
        """What memory was used for, in the shape of torch's `MemoryProfile`."""
        from otel_torchprof.profiling.memory_view import MemoryView

        required = ("record_shapes", "profile_memory", "with_stack")
        missing = [f"{name}=True" for name in required if not getattr(self, name)]
        if missing:
            raise ValueError(f"{', '.join(missing)} required for memory profiling.")
        return MemoryView(self.recording)

    def _begin_step(self, number: int, *, is_partial: bool) -> None:
        if self._capture is not None:
            flags = STEP_HAS_NUMBER | (STEP_PARTIAL if is_partial else 0)
            self._capture.begin_step(number, self._step_contexts.place(flags))

    def _end_step(self) -> None:
        if self._capture is not None:
            self._capture.end_step()

    def _has_ops(self) -> bool:
        """Whether the latest cycle holds more than calls of Python."""
        return bool((~np.isin(self.recording.events.kind, PYTHON_KINDS)).any())

    def _finished(self) -> Results:
        if self._results is None:
            raise RuntimeError("there is no recording yet: leave the `with` block, or call stop(), first")
        return self._results

    def _cycle_path(self) -> str | os.PathLike[str] | None:
        """The file of the first cycle has the name that was given, those after it a number too."""
        if self.path is None or not self._cycles:
            return self.path
        path = Path(self.path)
        return path.with_name(f"{path.stem}.{self._cycles}{path.suffix}")

    def _view_options(self) -> ViewOptions:
        return ViewOptions(
            with_cpu=has_cpu(self.activities),
            with_steps=self.record_steps,
            use_device=self.use_device,
            profile_memory=self.profile_memory,
            with_flops=self.with_flops,
            left_out=self._filter.left_out_of_events,
            left_out_of_traces=self._filter.left_out_of_traces,
        )

    def _add_known_metadata(self) -> None:
        self._metadata.add("trace_id", self._trace_id or "")
        for name in ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
            if getattr(self, name):
                self._metadata.add_json(name, "1")
