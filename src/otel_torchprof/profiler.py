"""torch.profiler's interface on our own recorder: `from otel_torchprof.profiler import profile, schedule`."""

from __future__ import annotations

import importlib
import os
import weakref
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from otel_torchprof.profiling.actions import (
    InvalidSchedule,
    ProfilerAction,
    always_record,
    schedule,
)
from otel_torchprof.profiling.activities import supported_activities, with_use_cuda
from otel_torchprof.profiling.cycles import CycleMachine, transitions
from otel_torchprof.profiling.handlers import (
    otlp_trace_handler,
    recording_handler,
    tensorboard_trace_handler,
)
from otel_torchprof.profiling.recorders import Recorder
from otel_torchprof.profiling.step_mark import StepMark
from otel_torchprof.profiling.trace_profile import TraceProfile
from otel_torchprof.recorder.capture_options import (
    DEFAULT_BUFFER_SIZE_BYTES,
    CounterScope,
    DeviceGraphs,
    DeviceMode,
)
from otel_torchprof.recorder.steps import StepSource, process_steps

if TYPE_CHECKING:
    from torch.autograd import DeviceType, kineto_available
    from torch.autograd.profiler import record_function
    from torch.profiler import ExecutionTraceObserver, ProfilerActivity, itt
    from typing_extensions import Self

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "InvalidSchedule",
    "ProfilerAction",
    "ProfilerActivity",
    "Recorder",
    "itt",
    "kineto_available",
    "otlp_trace_handler",
    "profile",
    "record_function",
    "recording_handler",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

# Torch's own: `record_function` must work under torch.jit.script and torch.compile, enums must be equal.
_TORCHS_OWN = {
    "DeviceType": "torch.autograd",
    "ExecutionTraceObserver": "torch.profiler",
    "ProfilerActivity": "torch.profiler",
    "itt": "torch.profiler",
    "kineto_available": "torch.autograd",
    "record_function": "torch.autograd.profiler",
}


class profile(TraceProfile):
    """Records every op of every thread from `start()` to `stop()`, or inside `with`: the steps of a schedule.

    Several may record at the same time, each with a recording of its own that holds all events.

    Args:
        activities: `ProfilerActivity`s, or dictionaries of them with the names of what is wanted of each, as
            `{ProfilerActivity.CUDA: ["GPU_MEMCPY"]}`; None takes all that there are. Without `CPU` only
            devices, and the calls to them, are shown.
        schedule: says for each step what to do, see `schedule()`; None records everything as one cycle.
        on_trace_ready: called with the profile when a cycle has ended. `prof.is_partial` tells that `stop()`
            cut it off. What it raises comes out of `step()` or `stop()`; the next cycle is recorded all the
            same.
        record_shapes: also record shapes, dtypes, strides and plain values of the inputs of ops.
        profile_memory: also record every allocation and free.
        with_stack: also record Python calls.
        with_flops: count floating point operations, from shapes, which are recorded for it.
        with_modules: also record calls of `nn.Module`s, with their paths.
        experimental_config: torch's settings of Kineto, which have no meaning here: all threads are recorded
            and overload names are known in any case.
        execution_trace_observer: started and stopped with each cycle, as torch's is.
        acc_events: `events()` and `key_averages()` hold all cycles, not only the latest.
        use_cuda: torch's deprecated way to ask for the activity `CUDA`.
        custom_trace_id_callback: gives the id of each cycle; None gives a random one.
        post_processing_timeout_s: torch's bound on the time that `events()` takes, which is not needed here.
        counters: names of perf events to count, as `perf list` has them.
        counter_scope: over what they are counted beside steps and threads: "span" = user spans, "op" = those
            and every op.
        device: work on CUDA devices: "on", "off", or "auto" by the activities.
        device_graphs: a CUDA graph that is launched is recorded as its "nodes", or as a "whole".
        path: a `.tprof` file to record into; it can be read even if the process is killed. None records
            into memory; `prof.recording.save(path)` saves that. Cycles after the first get a number in it.
        buffer_size_bytes: bound on the recording; what does not fit is dropped and counted.
        fallback: "torch" records through torch.profiler where our own recorder has no bridge to this torch;
            docs/torch-fallback.md says what is lost. None raises there.
        recorder: "torch" records through torch.profiler in any case, "native" with our own recorder. None
            takes our own, but torch.profiler for activities that only it sees: XPU, MTIA, HPU, PrivateUse1,
            and CUDA on ROCm.

    Raises:
        ValueError: there is no such recorder, counter scope, device mode or choice of graphs, an activity is
            given twice, the timeout is negative, or the schedule returned no action for step 0.
        TypeError: an activity is none.
        AssertionError: there are no activities.
    """

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[[Any], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
        counters: Sequence[str] = (),
        counter_scope: CounterScope = "span",
        device: DeviceMode = "auto",
        device_graphs: DeviceGraphs = "nodes",
        path: str | os.PathLike[str] | None = None,
        buffer_size_bytes: int = DEFAULT_BUFFER_SIZE_BYTES,
        fallback: Literal["torch"] | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        super().__init__(
            activities=activities if use_cuda is None else with_use_cuda(activities, use_cuda),
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer or _observer_from_environment(),
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
            counters=counters,
            counter_scope=counter_scope,
            device=device,
            device_graphs=device_graphs,
            path=path,
            buffer_size_bytes=buffer_size_bytes,
            fallback=fallback,
            recorder=recorder,
        )
        self.schedule = schedule or always_record
        self.on_trace_ready = on_trace_ready
        self.record_steps = schedule is not None
        self.is_partial = False
        """Whether `stop()` cut off the latest cycle before its schedule did. It holds what there was."""
        self._steps_ended = 0
        self._was_started = False
        self._machine = CycleMachine(self.schedule, _ProfileCycles(self))

    @property
    def step_num(self) -> int:
        """Number of the step under way, from 0."""
        return self._machine.step_number

    @property
    def current_action(self) -> ProfilerAction:
        """What the schedule says of it."""
        return self._machine.action

    @property
    def step_rec_fn(self) -> StepMark | None:
        """The step under way, where there is a schedule."""
        if self.record_steps and self._machine.running:
            return StepMark(f"ProfilerStep#{self.step_num}")
        return None

    @property
    def action_map(self) -> dict[tuple[ProfilerAction, ProfilerAction | None], list[Callable[[], None]]]:
        """What is done between two steps, by their actions; None = `stop()`. Changing it changes nothing."""
        methods = {
            "prepare": self.prepare_trace,
            "start": self.start_trace,
            "stop": self.stop_trace,
            "deliver": self._trace_ready,
        }
        return {actions: [methods[name] for name in names] for actions, names in transitions().items()}

    def start(self) -> None:
        """Begin, with the step under way, which at first is 0.

        Raises:
            ImportError: torch is not installed.
            BridgeUnavailable: ops cannot be recorded with this torch on this machine; it says what to do.
            OSError: the file cannot be made.
            RuntimeError: it was started before, too many record already, or an activity is asked for what it
                has not; through torch.profiler, another of it records.
        """
        if self._machine.running:
            raise RuntimeError("a profile records once: make another")
        importlib.import_module("torch")
        self._machine.begin()
        self._was_started = True

    def step(self) -> None:
        """End a step and begin the next. It is an explicit step of the program too, as with `step()`.

        Before `start()` and after `stop()` the step is only counted, so that a loop may go on.

        Raises:
            ValueError: the schedule returned no action for the step; the step before goes on then.
            BridgeUnavailable, OSError: as `start`.
        """
        before = self.step_num
        try:
            self._machine.step()
        finally:
            if self._machine.running and self.step_num != before:
                process_steps.advance(StepSource.EXPLICIT, self)

    def stop(self) -> None:
        """Stop, and deliver what was recorded of the cycle under way; again, it does nothing.

        Raises:
            RuntimeError: it was never started; through torch.profiler, another of it took what was recorded.
            OSError: the recording cannot be saved.
        """
        if not self._was_started:
            raise RuntimeError("the profile does not record: call start(), or use `with`, first")
        if self._machine.running:
            try:
                self._machine.end()
            finally:
                process_steps.forget(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self.stop()
        finally:
            if self.execution_trace_observer:
                self.execution_trace_observer.cleanup()

    def _trace_ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)


class _ProfileCycles:
    """What the cycles of a profile do to it. It does not keep the profile: one that is dropped stops."""

    def __init__(self, owner: profile) -> None:
        self._find_owner = weakref.ref(owner)
        self._is_first_step_of_cycle = False
        self._has_ended_step = False
        self._is_empty = False

    @property
    def _owner(self) -> profile:
        owner = self._find_owner()
        assert owner is not None  # it is its methods that get here
        return owner

    def prepare(self) -> None:
        self._owner.prepare_trace()

    def start(self) -> None:
        self._owner.start_trace()
        self._is_first_step_of_cycle = True
        self._has_ended_step = False

    def begin_step(self, number: int) -> None:
        is_partial = self._is_first_step_of_cycle and not self._owner._machine.running
        self._has_ended_step = not self._is_first_step_of_cycle
        self._is_first_step_of_cycle = False
        self._owner._begin_step(number, is_partial=is_partial)

    def stop(self, *, is_partial: bool) -> None:
        owner = self._owner
        if not is_partial:
            owner._end_step()
        owner.stop_trace()
        owner.is_partial = is_partial and owner.record_steps
        self._is_empty = owner.is_partial and not self._has_ended_step and not owner._has_ops()

    def abandon(self) -> None:
        self._owner._capture = None

    def deliver(self) -> None:
        owner = self._owner
        # A schedule whose next cycle had only just begun has nothing to deliver.
        if not self._is_empty:
            owner._trace_ready()


def _observer_from_environment() -> Any:
    if os.environ.get("ENABLE_PYTORCH_EXECUTION_TRACE", "0") != "1":
        return None
    observer: Any = importlib.import_module("torch.profiler").ExecutionTraceObserver
    return observer.build_execution_trace_obs_from_env()


def __getattr__(name: str) -> Any:
    if name in _TORCHS_OWN:
        return getattr(importlib.import_module(_TORCHS_OWN[name]), name)
    if name == "_KinetoProfile":
        return TraceProfile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
