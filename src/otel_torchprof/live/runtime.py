"""The instrumentation at work: steps of the program -> windows -> spans, and metrics of all of them.

From torch's import to the exit, in the mode that the settings or the program itself ask for.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_torchprof.config import Mode, Settings, StepRule
from otel_torchprof.live.end_of_program import say_that_it_was_too_short, say_that_no_step_ended
from otel_torchprof.live.metrics import LiveMetrics
from otel_torchprof.live.missing_steps import MissingSteps, say_that_steps_are_missing
from otel_torchprof.live.overhead_guard import WINDOW_NS, WINDOWS_TO_TRIP, OverheadGuard
from otel_torchprof.live.periodic_check import PeriodicCheck
from otel_torchprof.live.rank_share import SharedSchedule
from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.recorder.call_windows import CallWindows
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.optimizer_hooks import OptimizerHooks
from otel_torchprof.recorder.process_role import is_multiprocessing_child
from otel_torchprof.recorder.recording_path import recording_path
from otel_torchprof.recorder.step_calls import StepCalls
from otel_torchprof.recorder.steps import StepSource, StepTracker, process_steps
from otel_torchprof.recorder.torch_import import when_torch_is_imported
from otel_torchprof.recorder.window import (
    EVENT_COST_NS,
    STEP_NOT_RECORDED,
    StepContext,
    Window,
    WindowController,
)
from otel_torchprof.semconv_metrics import TRIPPED
from otel_torchprof.telemetry.batch import Batch, BatchMistake
from otel_torchprof.telemetry.work_time import work_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

    from otel_torchprof.metrics.families import MetricFamily
    from otel_torchprof.recorder.capture import Capture
    from otel_torchprof.recorder.schedule import Schedule
    from otel_torchprof.recording import Recording
    from otel_torchprof.telemetry.metric_output import MetricOutput
    from otel_torchprof.telemetry.span_sink import SpanSink

_logger = logging.getLogger(__name__)

_SOURCES = {
    StepRule.AUTO: frozenset(StepSource),
    StepRule.EXPLICIT: frozenset({StepSource.EXPLICIT}),
    StepRule.OPTIMIZER: frozenset({StepSource.OPTIMIZER, StepSource.GRAD_SCALER}),
    # Calls of models overlap, where steps follow each other.
    StepRule.MODULE: frozenset(),
}
# Of the time that the end may take, what is kept for metrics: the last ones tell what became of the spans.
_SHARE_FOR_METRICS = 0.25
# How long a change of the mode waits for a step boundary that is handled on another thread.
_SWITCH_TIMEOUT_S = 1.0


class Runtime:
    """Records steps and counts everything, from `start()` to `shutdown()`. Raises nothing.

    Args:
        settings: what to record and to count.
        sink: takes the recordings.
        make_metric_output: takes the metrics, which it is given a function for.
        tracker: counts the steps.
        clock_ns: a monotonic clock, for the windows in which the cost of all this is measured.
    """

    def __init__(
        self,
        settings: Settings,
        sink: SpanSink,
        make_metric_output: Callable[[Callable[[], list[MetricFamily]]], MetricOutput],
        tracker: StepTracker = process_steps,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.settings = settings
        self._sink = sink
        self._tracker = tracker
        self._wanted_mode = settings.mode
        self._is_tripped = False
        self._has_off_file = False
        self._hooks: OptimizerHooks | None = None
        self._torch: ModuleType | None = None
        self._cancel_import: Callable[[], None] | None = None
        self._first_step: int | None = None
        self._has_stepped = False
        self._has_served = False  # batches, which are in the place of steps
        self._shut_down = False
        self._records = False
        self._counts = False
        # A process that may only load data says by its first step that it does more.
        self._waits_for_step = False
        self._lock = threading.RLock()  # a signal handler may switch modes
        self.metrics = LiveMetrics(
            settings,
            tracker,
            export_counts=sink.counters.counts,
            state=lambda: self.state,
            overhead=lambda: self._guard.share,
            redactor=sink.redactor,
        )
        self.metric_output = make_metric_output(self.metrics.collect)
        sink.on_delivered = self.metrics.steps.spans_delivered
        if settings.patterns:
            sink.add_events = self.metrics.findings.add_to
        self._windows = WindowController(
            self._make_schedule(),
            open_capture=self._open_capture,
            place_step=self._place_step,
            deliver=self._deliver,
            make_ready=_make_ready,
            recording_path=self._recording_path if settings.recording_dir is not None else None,
        )
        self._calls = CallWindows(
            self._make_schedule(),
            placer=sink.call_contexts,
            open_capture=self._open_call_capture,
            deliver=self._deliver,
            make_ready=_make_ready,
            recording_path=self._recording_path if settings.recording_dir is not None else None,
        )
        self._step_calls = StepCalls(lambda: self._windows.capture)
        self._observes_calls = False
        self._missing_steps = self._watch_for_steps()
        self._guard = OverheadGuard(settings.max_overhead, self._cost_ns, clock_ns=clock_ns)
        self._checks = PeriodicCheck(self.check)

    @property
    def state(self) -> str:
        """Of `RECORDER_STATES`, the one that it is in."""
        mode = self._mode
        return TRIPPED if self._is_tripped and mode is not Mode.OFF else mode.value

    @property
    def _mode(self) -> Mode:
        return Mode.OFF if self._has_off_file else self._wanted_mode

    @property
    def _would_count(self) -> bool:
        """Whether it counts unless the file switches it off."""
        return self._wanted_mode in (Mode.BOTH, Mode.METRICS) and not self._waits_for_step

    def start(self) -> None:
        """Begin to count steps, as soon as torch is there."""
        self._tracker.sources = _SOURCES[self.settings.step]
        self._has_off_file = self._finds_off_file()
        if self._has_off_file:
            self._say_what_the_file_does()
        if self._mode is not Mode.OFF:
            self._tracker.add_listener(self._on_step)
        self._cancel_import = when_torch_is_imported(self._torch_imported)

    def set_mode(self, mode: Mode) -> None:
        """Produce what `mode` says from now on; a window of recorded steps under way is ended and sent.

        What had switched itself off, as it took too much, begins anew. While there is the file that switches
        everything off nothing is produced; the mode holds once it is gone.
        """
        with self._lock, failures.guard("the mode was not switched"):
            if self._shut_down:
                return
            self._wanted_mode = mode
            self._is_tripped = False
            self._guard.start_over()
            # Whoever says so is no process that only loads data.
            self._waits_for_step = False
            self._apply_mode()

    def check(self) -> None:
        """Follow the file that switches everything off, and the bound on what measuring takes.

        Called every second, on a thread of its own.
        """
        has_off_file = self._finds_off_file()
        is_over = self._guard.is_over()
        self._calls.check()
        self._follow_call_schedule()
        if self._records and self._missing_steps.are_noticed():
            say_that_steps_are_missing()
        with self._lock:
            if self._shut_down:
                return
            if has_off_file != self._has_off_file:
                self._has_off_file = has_off_file
                self._say_what_the_file_does()
                self._apply_mode()
            if is_over and not self._is_tripped and self._mode is not Mode.OFF:
                self._is_tripped = True
                self._say_that_it_tripped()
                self._follow_mode()

    def batch(self, requests: Iterable[Any], weights: Sequence[float]) -> AbstractContextManager[None]:
        """What `otel_torchprof.batch` returns."""
        self._has_served = True
        if self._records:
            # Where there are steps, what the batch runs is in their recordings: it must not be sent twice.
            recorder = self._step_calls if self._has_stepped else self._calls
            with failures.guard("a batch was not recorded"):
                try:
                    return Batch(
                        requests, weights, recorder, self._sink.call_contexts, self._sink.batch_shares
                    )
                except BatchMistake as mistake:
                    failures.report(f"a batch was not recorded, because of {mistake.what}", mistake)
        return nullcontext()

    def shutdown(self, timeout_s: float) -> bool:
        """Stop counting, hand on the window under way, export all spans and the last metrics. Idempotent.

        Returns:
            Whether all spans were exported within their share of `timeout_s`.
        """
        deadline_s = time.monotonic() + timeout_s
        for_metrics_s = timeout_s * _SHARE_FOR_METRICS if self._counts else 0.0
        with self._lock:
            if not self._shut_down:
                self._shut_down = True
                self._tracker.remove_listener(self._on_step)
                self._checks.stop()
                if self._cancel_import is not None:
                    self._cancel_import()
                self._windows.close(timeout_s)
                self._end_calls(timeout_s)
                self._say_why_nothing_was_recorded()
                self._remove_hooks()
                self.metrics.pause()
        sent = self._sink.shutdown(max(deadline_s - for_metrics_s - time.monotonic(), 0.0))
        self.metric_output.shutdown(max(deadline_s - time.monotonic(), for_metrics_s))
        return sent

    def start_over_in_child(self) -> None:
        """Count and schedule from the start, in a forked child; metrics begin with its first step."""
        self._lock = threading.RLock()
        if not self._shut_down:
            self._first_step = None
            self._has_stepped = self._has_served = False
            self._windows.start_over(self._make_schedule())
            self.metrics.start_over_in_child()
            self._is_tripped = False
            self._missing_steps = self._watch_for_steps()
            self._guard.start_over_in_child()
            self._checks = PeriodicCheck(self.check)
            self._counts = False
            self._waits_for_step = True
            self._begin_calls()

    def _torch_imported(self, torch: ModuleType) -> None:
        from otel_torchprof.telemetry.resource import program_name

        with self._lock, failures.guard("steps are not counted"):
            self._torch = torch
            program_name()  # which can be read no more at the exit
            self._install_hooks(torch)
            # A spawned process may be one that only loads data, which shows when it never steps.
            self._waits_for_step = is_multiprocessing_child()
            self._follow_mode()

    def _apply_mode(self) -> None:
        """Listen to steps unless nobody wants to know, and begin and end what the mode says."""
        if self._mode is Mode.OFF:
            self._tracker.remove_listener(self._on_step)
        else:
            self._tracker.add_listener(self._on_step)
        if self._torch is not None:
            self._install_hooks(self._torch)
            self._follow_mode()

    def _install_hooks(self, torch: ModuleType) -> None:
        """Have torch tell of steps, unless nobody wants to know or the program tells itself."""
        if self._mode is Mode.OFF:
            self._remove_hooks()
        elif self._hooks is None and self.settings.step not in (StepRule.EXPLICIT, StepRule.MODULE):
            self._hooks = OptimizerHooks(torch, self._tracker)
            self._hooks.install()

    def _remove_hooks(self) -> None:
        hooks, self._hooks = self._hooks, None
        if hooks is not None:
            with failures.guard("the hooks were not taken out of torch"):
                hooks.remove()

    def _follow_mode(self) -> None:
        """Begin and end what the mode says, inside the step under way."""
        if self._wanted_mode is Mode.OFF:
            self._checks.stop()
        elif self._has_off_file or not self._waits_for_step:
            self._checks.start()
        records = self._mode in (Mode.BOTH, Mode.TRACE) and not self._is_tripped
        counts = self._would_count and not self._has_off_file
        if records != self._records:
            self._records = records
            if records:
                self._begin_windows()
            else:
                self._windows.close(_SWITCH_TIMEOUT_S)
                self._end_calls(_SWITCH_TIMEOUT_S)
        if counts != self._counts and self._torch is not None:
            self._counts = counts
            if counts:
                if self._first_step is None:
                    self._first_step = self._tracker.current
                self.metrics.start(self._torch, self._tracker.current)
                self.metric_output.start()
            else:
                self.metrics.pause()
                self.metric_output.pause()
        elif self._has_off_file and self._would_count and self._torch is not None:
            # Nothing was counted yet, but that it is off shows in the state.
            self.metric_output.start()
            self.metric_output.pause()
        if self._counts and not self._is_tripped:
            self.metrics.start_ops()
        else:
            self.metrics.pause_ops()

    def _begin_windows(self) -> None:
        self._begin_calls()
        if self.settings.step is StepRule.MODULE:
            return
        self._windows.start_over(self._make_schedule())
        if not self._waits_for_step:
            self._first_step = self._tracker.begin()
            self._windows.begin(self._first_step)

    def _begin_calls(self) -> None:
        self._calls.start_over(
            self._make_schedule(), at_first_call=self._take_part if self._waits_for_step else None
        )
        if self._records and self.settings.step is StepRule.MODULE:
            self._observe_calls(True)

    def _take_part(self) -> None:
        """A process that may only load data calls a model: as good as a step, unless it does load data."""
        if self._torch is not None and self._torch.utils.data.get_worker_info() is not None:
            with self._lock:
                self._records = False
                self._end_calls(_SWITCH_TIMEOUT_S)
        else:
            # On a thread of its own: a request must not wait for it.
            name = f"{OWN_THREAD_PREFIX}begin"
            threading.Thread(target=self._begin_to_count, name=name, daemon=True).start()

    def _begin_to_count(self) -> None:
        with self._lock, failures.guard("metrics did not begin"):
            if not self._shut_down:
                self._waits_for_step = False
                self._follow_mode()

    def _follow_call_schedule(self) -> None:
        """Be told of calls of modules only while one may be wanted: it costs every call a little."""
        with self._lock:
            if self._records and self.settings.step is StepRule.MODULE:
                self._observe_calls(self._calls.is_due)

    def _observe_calls(self, wanted: bool) -> None:
        from otel_torchprof.recorder.sources import modules

        if wanted == self._observes_calls or self._torch is None:
            return
        self._observes_calls = wanted
        if wanted:
            modules.observe_outermost_calls(self._torch.nn.Module, self._calls)
        else:
            modules.forget_outermost_calls()

    def _end_calls(self, timeout_s: float) -> None:
        self._observe_calls(False)
        self._calls.close(timeout_s)

    def _on_step(self, number: int, links: bytes) -> None:
        self._has_stepped = True
        if self._waits_for_step:
            with self._lock:
                self._waits_for_step = False
                self._follow_mode()
        # First, as a window that begins or ends takes its time.
        if self._counts:
            self.metrics.boundary(number)
        if self._records:
            self._windows.on_step(number, links)

    def _cost_ns(self) -> float:
        """What all this has taken so far: counting ops, recording them, and what holds the GIL to send."""
        recording_ns = (self._windows.recorded + self._calls.recorded) * EVENT_COST_NS
        return self.metrics.counting_cost_ns + recording_ns + work_time.total_ns

    def _finds_off_file(self) -> bool:
        path = self.settings.off_file
        return path is not None and path.exists()

    def _say_what_the_file_does(self) -> None:
        if self._has_off_file:
            _logger.warning("otel-torchprof: off, for as long as there is %s", self.settings.off_file)
        else:
            _logger.warning("otel-torchprof: on again, as %s is gone", self.settings.off_file)

    def _say_that_it_tripped(self) -> None:
        _logger.warning(
            "otel-torchprof: records no step and counts no op any more: in %d windows of %d s in a row "
            "measuring took more of the time than OTEL_PYTHON_TORCHPROF_MAX_OVERHEAD=%g, %.3g in the last "
            "one; otel_torchprof.set_mode(%r) begins again",
            WINDOWS_TO_TRIP,
            WINDOW_NS // 1_000_000_000,
            self._guard.max_share,
            self._guard.share,
            self._wanted_mode.value,
        )

    def _watch_for_steps(self) -> MissingSteps:
        has_calls = self.settings.step is StepRule.MODULE  # in the place of steps
        return MissingSteps(
            lambda: self.metrics.counted_ops,
            lambda: has_calls or self._has_served or self._has_stepped or self._tracker.backwards > 0,
        )

    def _say_why_nothing_was_recorded(self) -> None:
        if self._first_step is None or self.settings.step is StepRule.MODULE:
            return
        steps = self._tracker.current - self._first_step
        is_mine = self.settings.span_ranks.includes(self._sink.identity, 0)
        if not steps:
            if not self._has_served:
                say_that_no_step_ended(self.settings, ran_ops=self.metrics.counted_ops > 0)
        elif failures.count(STEP_NOT_RECORDED):
            return  # why has been said
        elif self._records and is_mine and not self._windows.recorded:
            say_that_it_was_too_short(self.settings, steps)

    def _make_schedule(self) -> Schedule:
        share = self.settings.span_ranks
        return SharedSchedule(
            self.settings.make_schedule(), lambda window: share.includes(self._sink.identity, window)
        )

    def _open_capture(self, path: Path | None) -> Capture:
        from otel_torchprof.recorder.capture import Capture

        return Capture(
            path,
            self.settings.capture_options(),
            run_id=self._sink.identity.run_id,
        )

    def _open_call_capture(self, path: Path | None) -> Capture:
        from otel_torchprof.recorder.capture import Capture
        from otel_torchprof.recorder.sources.modules import ModuleSource

        options = self.settings.capture_options()
        sources = () if options.with_modules else (ModuleSource(outermost_only=True),)
        return Capture(path, options, run_id=self._sink.identity.run_id, sources=sources)

    def _recording_path(self, step: int) -> Path:
        assert self.settings.recording_dir is not None
        return recording_path(self.settings.recording_dir, self._sink.identity, step)

    def _place_step(self, number: int) -> StepContext:
        placement = self._sink.place_step(number)
        if placement.is_sampled and self._counts:
            self.metrics.steps.expect_spans(number)
        span = placement.parent or placement.linked
        return StepContext(
            span=b"" if span is None else span.context_bytes,
            trace_flags=0 if span is None else span.trace_flags,
            in_parent=placement.parent is not None,
            sampled=placement.is_sampled,
        )

    def _deliver(self, window: Window) -> None:
        def make_recording() -> Recording:
            recording = window.capture.stop()
            self.metrics.add_recording(recording)
            return recording

        self._sink.submit(make_recording, window.capture.recorded, frozenset(window.unsampled_steps))


def _make_ready() -> None:
    from otel_torchprof.recorder.bridge import load_bridge

    load_bridge()
