"""The instrumentor that `opentelemetry-instrument` loads; by hand `TorchprofInstrumentor().instrument()`."""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from opentelemetry.instrumentation.instrumentor import BaseInstrumentor  # type: ignore[attr-defined]

from otel_torchprof.config import Configuration, Mode, Settings
from otel_torchprof.package import _instruments
from otel_torchprof.recorder.process_role import reason_not_to_record

if TYPE_CHECKING:
    from otel_torchprof.runtime import Runtime

_logger = logging.getLogger(__name__)

# How long the exit of the program may be held up by spans still to be sent; ending what hangs then takes up
# to half a second more.
EXIT_TIMEOUT_S = 4.0


class TorchprofInstrumentor(BaseInstrumentor):  # type: ignore[misc]
    """Records steps of PyTorch training loops and sends them as spans.

    `instrument()` takes the options of `Configuration`, and

    - `tracer_provider`: gives the resource and the sampler; by default the global one, asked for late;
    - `span_exporter`: takes the spans instead of what `OTEL_TRACES_EXPORTER` names.

    Called by hand it raises `SettingError` for a bad value and `TypeError` for an unknown option; loaded by
    `opentelemetry-instrument` it logs them and switches that part off. After it has returned, nothing raises
    into the program.
    """

    configuration = Configuration
    _runtime: Runtime | None = None
    _fork_hook_registered = False

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
        self, *, automatic: bool, tracer_provider: Any = None, span_exporter: Any = None, **options: Any
    ) -> None:
        reason = reason_not_to_record()
        if reason is not None:
            _logger.debug("nothing is recorded: this process is %s", reason)
            return
        settings = Settings.from_environment() if automatic else Settings.from_options(options)
        if settings.mode is Mode.METRICS:
            _logger.warning(
                "otel-torchprof: nothing is recorded: this version makes no metrics yet, only spans "
                "(OTEL_PYTHON_TORCHPROF_MODE=trace)"
            )
        if not settings.records_spans:
            return
        try:
            self._start(settings, tracer_provider, span_exporter, automatic=automatic)
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

    def _start(
        self, settings: Settings, tracer_provider: Any, span_exporter: Any, *, automatic: bool
    ) -> None:
        from otel_torchprof.runtime import Runtime
        from otel_torchprof.telemetry.declarative import is_disabled_by_file
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
        )
        self._runtime = Runtime(settings, sink)
        self._runtime.start()
        # Runs before the provider's own, which was registered earlier.
        atexit.register(self._at_exit)
        if not TorchprofInstrumentor._fork_hook_registered:
            TorchprofInstrumentor._fork_hook_registered = True
            os.register_at_fork(after_in_child=self._after_fork_in_child)

    def _uninstrument(self, **kwargs: Any) -> None:
        atexit.unregister(self._at_exit)
        self._at_exit()

    def _at_exit(self) -> None:
        runtime, self._runtime = self._runtime, None
        if runtime is not None and not runtime.shutdown(EXIT_TIMEOUT_S):
            _logger.warning("otel-torchprof: not all recorded steps were sent within %g s", EXIT_TIMEOUT_S)

    def _after_fork_in_child(self) -> None:
        if self._runtime is not None:
            self._runtime.start_over_in_child()
