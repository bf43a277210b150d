"""The instrumentor that `opentelemetry-instrument` loads; by hand `TorchprofInstrumentor().instrument()`."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from otel_torchprof import environment_variables
from otel_torchprof.config import Configuration, Mode, Settings
from otel_torchprof.live.termination import TerminationHandler
from otel_torchprof.package import _instruments
from otel_torchprof.recorder.process_role import reason_not_to_record
from otel_torchprof.recorder.torch_import import when_torch_is_imported
from otel_torchprof.setting_mistakes import unknown_settings

if TYPE_CHECKING:
    from types import ModuleType

    from opentelemetry.sdk.resources import Resource

    from otel_torchprof.live.runtime import Runtime
    from otel_torchprof.metrics.families import MetricFamily
    from otel_torchprof.telemetry.metric_output import MetricOutput
    from otel_torchprof.telemetry.span_sink import SpanSink

_logger = logging.getLogger(__name__)

# How long the exit of the program may be held up by spans and metrics still to be sent. Ending what hangs
# then takes half a second of it for each.
EXIT_TIMEOUT_S = 5.0
_TO_END_S = 1.0


class TorchprofInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Records steps of PyTorch training loops and sends them as spans, and counts all of them as metrics.

    `instrument()` takes the options of `Configuration`, and

    - `tracer_provider`: gives the resource and the sampler; by default the global one, asked for late;
    - `span_exporter`: takes the spans instead of what `OTEL_TRACES_EXPORTER` names;
    - `metric_exporter`: takes the metrics instead of what `OTEL_METRICS_EXPORTER` names.

    Called by hand it raises `SettingError` for a bad value and `TypeError` for an unknown option; loaded by
    `opentelemetry-instrument` it logs them and switches that part off. After it has returned, nothing raises
    into the program.
    """

    configuration = Configuration
    _runtime: Runtime | None = None
    _sink: SpanSink | None = None
    # Starts what the mode OFF left out.
    _start_in: Callable[[Mode], None] | None = None
    _termination = TerminationHandler(lambda: TorchprofInstrumentor()._at_exit())
    _fork_hook_registered = False
    # Held by who ends the runtime: an exit must not cut off what SIGTERM began.
    _ending = threading.RLock()

    def instrumentation_dependencies(self) -> Collection[str]:
        """Return what is instrumented, as requirements."""
        return _instruments

    def instrument(self, **kwargs: Any) -> None:
        """Begin; see the class."""
        # Only opentelemetry-instrument passes these alone: it checks the dependencies by itself.
        automatic = bool(kwargs) and kwargs.keys() <= {"skip_dep_check", "raise_exception_on_conflict"}
        if automatic and self.is_instrumented_by_opentelemetry:
            return  # by the declarative configuration file
        super().instrument(automatic=automatic, **kwargs)

    def _instrument(
        self,
        *,
        automatic: bool,
        tracer_provider: Any = None,
        span_exporter: Any = None,
        metric_exporter: Any = None,
        **options: Any,
    ) -> None:
        reason = reason_not_to_record()
        if reason is not None:
            _logger.debug("nothing is recorded: this process is %s", reason)
            return
        settings = Settings.from_environment() if automatic else Settings.from_options(options)
        _say_what_is_no_setting()
        if not settings.enabled:
            if options.get("enabled") is None:
                _say_that_the_environment_disables()
            return

        def start_in(mode: Mode) -> None:
            self._start(
                replace(settings, mode=mode),
                tracer_provider,
                span_exporter,
                metric_exporter,
                automatic=automatic,
            )

        self._start_in = start_in
        if settings.mode is Mode.OFF:
            return
        try:
            start_in(settings.mode)
        except ImportError as error:
            if not automatic:
                raise
            _logger.warning(
                "otel-torchprof: nothing is recorded: %s is not installed "
                "(pip install 'otel-torchprof[otlp]')",
                error.name,
            )
        except Exception as error:
            # Passed on, it would stop all other instrumentations.
            if not automatic:
                raise
            _logger.error("otel-torchprof: nothing is recorded: %s: %s", type(error).__name__, error)

    def set_mode(self, mode: Mode) -> bool:
        """Produce what `mode` says from now on; False where nothing is instrumented. Never raises."""
        if self._runtime is not None:
            self._runtime.set_mode(mode)
            if mode is not Mode.OFF:
                self._termination.install()  # in a forked child, which is no worker that just ends
        elif self._start_in is None:
            return False
        elif mode is not Mode.OFF:
            try:
                self._start_in(mode)
            except Exception as error:
                _logger.error("otel-torchprof: nothing is recorded: %s: %s", type(error).__name__, error)
            return self._runtime is not None
        return True

    def batch(self, requests: Iterable[Any], weights: Sequence[float]) -> AbstractContextManager[None]:
        """What `otel_torchprof.batch` returns; one that does nothing where nothing is instrumented."""
        runtime = self._runtime
        return nullcontext() if runtime is None else runtime.batch(requests, weights)

    def collect_metrics(self) -> Sequence[MetricFamily]:
        """All metrics as they stand; none where nothing is instrumented."""
        runtime = self._runtime
        return () if runtime is None else runtime.metrics.collect()

    def resource(self) -> Resource:
        """The resource of all spans and metrics; an empty one where nothing is instrumented."""
        from opentelemetry.sdk.resources import Resource

        sink = self._sink
        return Resource.get_empty() if sink is None else sink.resource()

    def _start(
        self,
        settings: Settings,
        tracer_provider: Any,
        span_exporter: Any,
        metric_exporter: Any,
        *,
        automatic: bool,
    ) -> None:
        from otel_torchprof.live.runtime import Runtime
        from otel_torchprof.telemetry.declarative import is_disabled_by_file
        from otel_torchprof.telemetry.metric_output import MetricOutput
        from otel_torchprof.telemetry.redaction import Redactor
        from otel_torchprof.telemetry.span_sink import SpanSink

        if automatic and is_disabled_by_file(os.environ):
            return
        sink = SpanSink(
            max_spans_per_trace=settings.max_spans_per_trace,
            max_trace_bytes=settings.max_trace_bytes,
            min_span_duration_ns=round(settings.min_span_duration_us * 1_000),
            run_id=settings.run_id,
            tracer_provider=tracer_provider,
            span_exporter=span_exporter,
            redactor=None if settings.redact is None else Redactor(settings.redact),
        )

        def make_metric_output(collect: Callable[[], list[MetricFamily]]) -> MetricOutput:
            return MetricOutput(
                collect,
                sink.resource,
                os.environ,
                exporter=metric_exporter,
                prometheus_port=settings.prometheus_port,
                prometheus_host=settings.prometheus_host,
                local_rank=lambda: sink.identity.local_rank,
                is_one_of_many=sink.identity.world_size > 1,
            )

        self._sink = sink
        self._runtime = Runtime(settings, sink, make_metric_output)
        self._runtime.start()
        # Runs before the provider's own, which was registered earlier.
        atexit.register(self._at_exit)
        self._termination.install()
        if not TorchprofInstrumentor._fork_hook_registered:
            TorchprofInstrumentor._fork_hook_registered = True
            os.register_at_fork(
                before=self._termination.before_fork,
                after_in_parent=self._termination.after_fork_in_parent,
                after_in_child=self._after_fork_in_child,
            )

    def _uninstrument(self, **kwargs: Any) -> None:
        self._start_in = None
        self._termination.remove()
        atexit.unregister(self._at_exit)
        self._at_exit()

    def _at_exit(self) -> None:
        with self._ending:
            self._end()

    def _end(self) -> None:
        runtime, self._runtime = self._runtime, None
        sink, self._sink = self._sink, None
        if runtime is None or sink is None:
            return
        if not runtime.shutdown(EXIT_TIMEOUT_S - _TO_END_S):
            _say_that_steps_are_lost(sink.last_failure)

    def _after_fork_in_child(self) -> None:
        TorchprofInstrumentor._ending = threading.RLock()
        self._termination.after_fork_in_child()
        if self._runtime is not None:
            self._runtime.start_over_in_child()
            if "torch" not in sys.modules:
                when_torch_is_imported(self._program_was_loaded_after_fork)

    def _program_was_loaded_after_fork(self, _torch: ModuleType) -> None:
        # As by the worker of a server, which takes SIGTERM itself only once it serves.
        self._termination.install()


def _say_what_is_no_setting() -> None:
    mistakes = unknown_settings(os.environ)
    if mistakes:
        ignored = ", ".join(f"{mistake.what} ({mistake.way_out})" for mistake in mistakes)
        _logger.warning("otel-torchprof: ignored: %s", ignored)


def _say_that_the_environment_disables() -> None:
    """To who asks: a kill switch is no trouble to warn of, but who looks for spans may not have set it."""
    name = environment_variables.OTEL_PYTHON_TORCHPROF_ENABLED
    _logger.info("otel-torchprof: off, by %s=%s", name, os.environ[name])


def _say_that_steps_are_lost(failure: str) -> None:
    if os.environ.get("OTEL_TRACES_EXPORTER") == "otlp_file":
        cause, way_out = "their spans are still being made", "shorter windows are done sooner"
    else:
        cause = "no answer yet"
        way_out = (
            "OTEL_EXPORTER_OTLP_ENDPOINT says where to send, "
            "OTEL_TRACES_EXPORTER=otlp_file writes them to a file instead"
        )
    _logger.warning(
        "otel-torchprof: not all recorded steps were sent within the %g s that the program's end waits (%s); "
        "%s; OTEL_PYTHON_TORCHPROF_RECORDING_DIR keeps recordings whole",
        EXIT_TIMEOUT_S,
        failure or cause,
        way_out,
    )
