"""The OpenTelemetry context around a captured step: which span it belongs to, and whether it is sampled.

A step is a child of the span current at its start if that span began less than a minute ago and holds no
captured step yet: a request, a job step. Under a span that stays open for hours (the job itself) thousands
of steps would make one endless trace, so there a step is a root of its own, linked to the span.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags

from otel_torchprof.telemetry.after_fork import rebuild_after_fork

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

STEP_SPAN_NAME = "torch.step"
MAX_PARENT_AGE_NS = 60_000_000_000
_MAX_REMEMBERED_SPANS = 1024


@dataclass(frozen=True, slots=True)
class CurrentSpan:
    """What we keep of the span current at some point: plain integers, no reference to the span."""

    trace_id: int
    span_id: int
    trace_flags: int
    start_ns: int | None  # unix; None for a span of another process
    is_recording: bool
    is_remote: bool

    @property
    def is_sampled(self) -> bool:
        return bool(self.trace_flags & TraceFlags.SAMPLED)

    @property
    def context_bytes(self) -> bytes:
        """Trace id and span id, 24 bytes, as the recorder takes them."""
        return self.trace_id.to_bytes(16, "big") + self.span_id.to_bytes(8, "big")


def current_span() -> CurrentSpan | None:
    """The span of the current context; None outside any."""
    span = trace.get_current_span()
    context = span.get_span_context()
    if not context.is_valid:
        return None
    start_ns = getattr(span, "start_time", None)
    return CurrentSpan(
        context.trace_id,
        context.span_id,
        int(context.trace_flags),
        start_ns if isinstance(start_ns, int) else None,
        span.is_recording(),
        context.is_remote,
    )


@dataclass(frozen=True, slots=True)
class StepPlacement:
    """Where a captured step goes. At most one of `parent` and `linked` is set."""

    parent: CurrentSpan | None
    linked: CurrentSpan | None
    is_sampled: bool


@dataclass(slots=True)
class _SeenSpan:
    first_seen_ns: int  # monotonic
    age_at_first_sight_ns: int
    holds_step: bool = False


class StepPlacer:
    """Decides for each captured step; remembers, within bounds, the spans that hold one. Raises nothing.

    `provider` gives the sampler that roots are put to, and is asked for at each decision: a program may set
    its provider late. Without a sampler every root is sampled.
    """

    def __init__(
        self,
        provider: Callable[[], TracerProvider] = trace.get_tracer_provider,
        *,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        unix_ns: Callable[[], int] = time.time_ns,
        max_remembered_spans: int = _MAX_REMEMBERED_SPANS,
    ) -> None:
        self._provider = provider
        self._monotonic_ns = monotonic_ns
        self._unix_ns = unix_ns
        self._max_remembered_spans = max_remembered_spans
        self._seen: OrderedDict[tuple[int, int], _SeenSpan] = OrderedDict()
        self.rebuild_in_child()
        rebuild_after_fork(self)

    def rebuild_in_child(self) -> None:
        """Make the lock anew; spans that hold a step of the parent still do."""
        self._lock = threading.RLock()  # a signal handler may step while its own thread places one

    def place(self, span: CurrentSpan | None, root_trace_id: int) -> StepPlacement:
        """Where the step that starts now under `span` goes; `root_trace_id` is its trace if it is a root."""
        if span is not None and self.claim(span):
            return StepPlacement(parent=span, linked=None, is_sampled=span.is_sampled)
        return StepPlacement(parent=None, linked=span, is_sampled=self._sample_root(root_trace_id, span))

    def claim(self, span: CurrentSpan) -> bool:
        """Whether a step may go under `span`; from then on it holds one."""
        with self._lock:
            seen, age_ns = self._look_at(span)
            if seen.holds_step or age_ns >= MAX_PARENT_AGE_NS:
                return False
            seen.holds_step = True
            return True

    def is_young(self, span: CurrentSpan) -> bool:
        """Whether `span` began less than a minute ago."""
        with self._lock:
            return self._look_at(span)[1] < MAX_PARENT_AGE_NS

    def _look_at(self, span: CurrentSpan) -> tuple[_SeenSpan, int]:
        """What is known of `span`, and its age in ns; under the lock."""
        now_ns = self._monotonic_ns()
        key = (span.trace_id, span.span_id)
        seen = self._seen.get(key)
        if seen is None:
            # Unix time is read once a span; from there its age is monotonic, so a clock that is set does
            # not make an old span young.
            age_ns = 0 if span.start_ns is None else max(self._unix_ns() - span.start_ns, 0)
            seen = self._seen.setdefault(key, _SeenSpan(now_ns, age_ns))
            if len(self._seen) > self._max_remembered_spans:
                self._seen.popitem(last=False)
        else:
            self._seen.move_to_end(key)
        return seen, seen.age_at_first_sight_ns + now_ns - seen.first_seen_ns

    def _sample_root(self, trace_id: int, linked: CurrentSpan | None) -> bool:
        return self.samples_root(trace_id, STEP_SPAN_NAME, [] if linked is None else [_span_context(linked)])

    def samples_root(self, trace_id: int, name: str, linked: Sequence[SpanContext]) -> bool:
        """Whether the provider's sampler takes a root of that name and trace, linked to those spans."""
        try:
            sampler = getattr(self._provider(), "sampler", None)
            if sampler is None:
                return True
            links = [Link(context) for context in linked]
            result = sampler.should_sample(
                Context(), trace_id, name, kind=SpanKind.INTERNAL, attributes={}, links=links
            )
            return bool(result.decision.is_sampled())
        except Exception:
            return True  # a sampler of the user's that fails decides nothing


def _span_context(span: CurrentSpan) -> SpanContext:
    return SpanContext(span.trace_id, span.span_id, span.is_remote, TraceFlags(span.trace_flags))
