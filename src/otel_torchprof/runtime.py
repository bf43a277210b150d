"""The instrumentation at work: steps of the program -> windows -> spans, from torch's import to the exit."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from otel_torchprof.config import Settings, StepRule
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.optimizer_hooks import OptimizerHooks
from otel_torchprof.recorder.process_role import is_multiprocessing_child
from otel_torchprof.recorder.recording_path import recording_path
from otel_torchprof.recorder.steps import StepSource, StepTracker, process_steps
from otel_torchprof.recorder.torch_import import when_torch_is_imported
from otel_torchprof.recorder.window import StepContext, Window, WindowController

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from otel_torchprof.recorder.capture import Capture
    from otel_torchprof.telemetry.span_sink import SpanSink

_logger = logging.getLogger(__name__)

_SOURCES = {
    StepRule.AUTO: frozenset(StepSource),
    StepRule.EXPLICIT: frozenset({StepSource.EXPLICIT}),
    StepRule.OPTIMIZER: frozenset({StepSource.OPTIMIZER, StepSource.GRAD_SCALER}),
}


class Runtime:
    """Records steps and hands them to the sink, from `start()` to `shutdown()`. Raises nothing.

    Args:
        settings: what to record.
        sink: takes the recordings.
        tracker: counts the steps.
    """

    def __init__(self, settings: Settings, sink: SpanSink, tracker: StepTracker = process_steps) -> None:
        self.settings = settings
        self._sink = sink
        self._tracker = tracker
        self._hooks: OptimizerHooks | None = None
        self._cancel_import: Callable[[], None] | None = None
        self._first_step: int | None = None
        self._shut_down = False
        self._windows = WindowController(
            settings.make_schedule(),
            open_capture=self._open_capture,
            place_step=self._place_step,
            deliver=self._deliver,
            make_ready=_make_ready,
            recording_path=self._recording_path if settings.recording_dir is not None else None,
        )

    def start(self) -> None:
        """Begin to count steps, as soon as torch is there."""
        self._tracker.sources = _SOURCES[self.settings.step]
        self._tracker.add_listener(self._windows.on_step)
        self._cancel_import = when_torch_is_imported(self._torch_imported)

    def shutdown(self, timeout_s: float) -> bool:
        """Stop counting, hand on the window under way and export all of them. Idempotent.

        Returns:
            Whether all was exported within `timeout_s`.
        """
        deadline_s = time.monotonic() + timeout_s
        if not self._shut_down:
            self._shut_down = True
            self._tracker.remove_listener(self._windows.on_step)
            if self._cancel_import is not None:
                self._cancel_import()
            self._windows.close(timeout_s)
            self._say_when_no_step_ended()
            if self._hooks is not None:
                with failures.guard("the hooks were not taken out of torch"):
                    self._hooks.remove()
        return self._sink.shutdown(max(deadline_s - time.monotonic(), 0.0))

    def start_over_in_child(self) -> None:
        """Count and schedule from the start, in a forked child."""
        if not self._shut_down:
            self._first_step = None
            self._windows.start_over(self.settings.make_schedule())

    def _torch_imported(self, torch: ModuleType) -> None:
        with failures.guard("steps are not counted"):
            if self.settings.step is not StepRule.EXPLICIT:
                self._hooks = OptimizerHooks(torch, self._tracker)
                self._hooks.install()
            # A spawned process may be one that only loads data, which shows when it never steps.
            if not is_multiprocessing_child():
                self._first_step = self._tracker.begin()
                self._windows.begin(self._first_step)

    def _say_when_no_step_ended(self) -> None:
        """A program that was to call step() has a fault then; any other may just not train."""
        if self._first_step is None or self._tracker.current > self._first_step:
            return
        is_explicit = self.settings.step is StepRule.EXPLICIT
        _logger.log(
            logging.WARNING if is_explicit else logging.INFO,
            "otel-torchprof: no step was seen: call otel_torchprof.step() where one ends%s",
            ", which OTEL_PYTHON_TORCHPROF_STEP=explicit leaves to the program" if is_explicit else "",
        )

    def _open_capture(self, path: Path | None) -> Capture:
        from otel_torchprof.recorder.capture import Capture

        return Capture(
            path,
            self.settings.capture_options(),
            run_id=self._sink.identity.run_id,
        )

    def _recording_path(self, step: int) -> Path:
        assert self.settings.recording_dir is not None
        return recording_path(self.settings.recording_dir, self._sink.identity, step)

    def _place_step(self, number: int) -> StepContext:
        placement = self._sink.place_step(number)
        span = placement.parent or placement.linked
        return StepContext(
            span=b"" if span is None else span.context_bytes,
            trace_flags=0 if span is None else span.trace_flags,
            in_parent=placement.parent is not None,
            sampled=placement.is_sampled,
        )

    def _deliver(self, window: Window) -> None:
        self._sink.submit(window.capture.stop, window.capture.recorded, frozenset(window.unsampled_steps))


def _make_ready() -> None:
    from otel_torchprof.recorder.bridge import load_bridge

    load_bridge()
