"""From finished recordings to sent spans: recording -> roots -> plan -> requests or span objects."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING

from opentelemetry import trace

from otel_torchprof.run_identity import RunIdentity, read_run_identity
from otel_torchprof.telemetry.batch_shares import BatchShares
from otel_torchprof.telemetry.call_context import CallContexts
from otel_torchprof.telemetry.context import StepPlacement, StepPlacer, current_span
from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.exporters import destination_for, destinations_from_environment
from otel_torchprof.telemetry.pipeline import ExportPipeline, max_jitter_s
from otel_torchprof.telemetry.resource import build_resource, environment_resource, serialize_resource

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import TracerProvider

    from otel_torchprof.recording import Recording
    from otel_torchprof.spans import EncodedRequest, Root, RootLink, SpanData, SpanLimits, SpanPlan
    from otel_torchprof.telemetry.redaction import Redactor

# What an event takes while its recording waits: its record, and about as much again once it is in columns.
_BYTES_PER_EVENT = 128


class SpanSink:
    """Turns recordings into spans and sends them, in the background. Nothing of it raises after it is made.

    Args:
        max_spans_per_trace, max_trace_bytes, min_span_duration_ns: see `SpanLimits`.
        run_id: instead of the launcher's.
        tracer_provider: gives resource and sampler; None asks for the global one when it is needed.
        span_exporter: takes the spans; None asks `OTEL_TRACES_EXPORTER`.
        redactor: what recordings pass before anything is made of them.
    """

    def __init__(
        self,
        *,
        max_spans_per_trace: int,
        max_trace_bytes: int,
        min_span_duration_ns: int,
        run_id: str | None = None,
        tracer_provider: TracerProvider | None = None,
        span_exporter: SpanExporter | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self.counters = ExportCounters()
        self.redactor = redactor
        self._max_spans_per_trace = max_spans_per_trace
        self._max_trace_bytes = max_trace_bytes
        self._min_span_duration_ns = min_span_duration_ns
        self._run_id = run_id
        self._tracer_provider = tracer_provider
        self._environment = environment_resource(self._provider())
        # Told the number, trace id and span id of each step whose spans have arrived.
        self.on_delivered: Callable[[int, int, int], None] | None = None
        # Adds events to the roots of a recording; called on the export thread, must not raise.
        self.add_events: Callable[[Recording, Sequence[Root]], Sequence[Root]] | None = None
        self._placer = StepPlacer(self._provider)
        self.call_contexts = CallContexts(self._placer)
        self.batch_shares = BatchShares(self._provider)
        self._last_step: RootLink | None = None
        if span_exporter is None:
            destinations = destinations_from_environment(os.environ, self.resource, self.counters)
        else:
            destinations = [destination_for(span_exporter, self.resource, self.counters)]
        jitter_s = max_jitter_s(self.identity.world_size)
        self._pipeline = ExportPipeline(destinations, self.counters, max_jitter_s=jitter_s)

    @property
    def identity(self) -> RunIdentity:
        """The run that this process is part of; a forked child has one of its own."""
        return read_run_identity(os.environ, self._run_id)

    def resource(self) -> Resource:
        """The resource of all spans, as it is known by now."""
        return build_resource(self._provider(), self.identity, self._environment)

    def place_step(self, number: int) -> StepPlacement:
        """Decide where the step that begins now goes, from the context of the calling thread."""
        from otel_torchprof.spans import step_ids

        root_trace_id, _ = step_ids(self.identity, number)
        placement = self._placer.place(current_span(), root_trace_id)
        if not placement.is_sampled:
            self.counters.add_sampled_out_step()
        return placement

    def submit(self, make_recording: Callable[[], Recording], events: int, unsampled_steps: Set[int]) -> bool:
        """Queue a recording; False (and a count) when the queue is full. Never waits.

        Args:
            make_recording: called on the export thread.
            events: about how many events it holds.
            unsampled_steps: numbers of the steps whose spans are not wanted.
        """
        return self._pipeline.submit(_RecordingWork(self, make_recording, events, unsampled_steps))

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was submitted has been tried; False when `timeout_s` did not suffice."""
        return self._pipeline.flush(timeout_s)

    def shutdown(self, timeout_s: float) -> bool:
        """Send what is queued and close; False when not all went out within `timeout_s`. Idempotent."""
        return self._pipeline.shutdown(timeout_s)

    @property
    def last_failure(self) -> str:
        """Address and cause where spans did not arrive last; empty where they always did."""
        return self._pipeline.last_failure

    def roots(self, recording: Recording, unsampled_steps: Set[int]) -> list[Root]:
        """The roots of the spans of `recording`; on the export thread, one recording after the other."""
        from otel_torchprof.spans import RootLink, roots_from_steps

        sampled = [step.number not in unsampled_steps for step in recording.steps]
        roots = roots_from_steps(recording, self.identity, sampled=sampled, previous=self._last_step)
        for root in roots:
            if root.step >= 0 and root.is_sampled:
                self._last_step = RootLink(root.trace_id, root.span_id, "previous_step")
        return roots

    def plan(self, recording: Recording, roots: Sequence[Root]) -> SpanPlan:
        """Plan the spans of `recording` under `roots`."""
        from otel_torchprof.spans import plan_spans

        plan = plan_spans(recording, roots, self._limits())
        self.batch_shares.recorded(plan.stats)
        return plan

    def delivered(self, roots: Sequence[Root]) -> None:
        """The spans under `roots` have arrived."""
        if self.on_delivered is not None:
            for root in roots:
                if root.number >= 0 and root.is_sampled:
                    self.on_delivered(root.number, root.trace_id, root.span_id)

    def _limits(self) -> SpanLimits:
        from otel_torchprof.spans import SpanLimits

        return SpanLimits(
            max_spans_per_trace=self._max_spans_per_trace,
            max_trace_bytes=self._max_trace_bytes,
            min_span_duration_ns=self._min_span_duration_ns,
        )

    def _provider(self) -> TracerProvider:
        return self._tracer_provider or trace.get_tracer_provider()


class _RecordingWork:
    """One recording on its way out; planned once, for all destinations."""

    def __init__(
        self,
        sink: SpanSink,
        make_recording: Callable[[], Recording],
        events: int,
        unsampled_steps: Set[int],
    ) -> None:
        self._sink = sink
        self._make_recording = make_recording
        self._unsampled_steps = unsampled_steps
        self._roots: Sequence[Root] = ()
        self.size_bytes = events * _BYTES_PER_EVENT

    @functools.cached_property
    def _plan(self) -> SpanPlan:
        recording = self._make_recording()
        if self._sink.redactor is not None:
            recording = self._sink.redactor.recording(recording)
        self._roots = self._sink.roots(recording, self._unsampled_steps)
        if self._sink.add_events is not None:
            self._roots = self._sink.add_events(recording, self._roots)
        return self._sink.plan(recording, self._roots)

    def requests(self) -> Iterable[EncodedRequest]:
        return self._plan.encode(serialize_resource(self._sink.resource()))

    def spans(self) -> Iterable[SpanData]:
        return self._plan.spans()

    def delivered(self) -> None:
        self._sink.delivered(self._roots)
