"""A batch of requests that a server answers together: a trace of its own, and what each request had of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextvars import Token
from types import TracebackType
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, set_value
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, TraceFlags

from otel_torchprof import semconv_batch as semconv
from otel_torchprof._native.core import span as scope
from otel_torchprof.spans import BATCH_SPAN_NAME
from otel_torchprof.telemetry.call_context import BATCH_KEY, BatchMark, CallContexts, CallPlacement


class CallRecorder(Protocol):
    """What a batch needs of the recorder: see `CallWindows`."""

    def begin(self, current: CallPlacement, admit: Callable[[], CallPlacement | None]) -> Any: ...
    def call_began(self, call: Any) -> None: ...
    def call_ends(self, call: Any) -> None: ...


class Batch:
    """The context manager that `batch` returns; to be entered once.

    Args:
        requests: spans, span contexts, links or contexts of the requests.
        weights: how much of the batch each had; empty = all the same.
        recorder: records the batch, if the schedule wants it.
        contexts: places it.
    """

    def __init__(
        self,
        requests: Iterable[Any],
        weights: Sequence[float],
        recorder: CallRecorder,
        contexts: CallContexts,
    ) -> None:
        self._requests = [_span_of(request) for request in requests]
        self._shares = _shares(weights, len(self._requests))
        self._recorder = recorder
        self._contexts = contexts
        self._call: Any = None
        self._scope: Any = None
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        linked = [context for span in self._requests if (context := span.get_span_context()).is_valid]
        self._call = self._recorder.begin(
            CallPlacement(), lambda: self._contexts.new_root(BATCH_SPAN_NAME, linked)
        )
        self._token = attach(self._context())
        if self._call is not None:
            self._scope = scope(BATCH_SPAN_NAME)
            self._scope.__enter__()
            self._recorder.call_began(self._call)
        self._begin_ns, self._begin_cpu_ns = time.perf_counter_ns(), time.thread_time_ns()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        cpu_ns = max(time.thread_time_ns() - self._begin_cpu_ns, 0)
        duration_ns = time.perf_counter_ns() - self._begin_ns
        if self._token is not None:
            detach(self._token)
        if self._call is None:
            return
        self._scope.__exit__(None, None, None)
        self._recorder.call_ends(self._call)
        self._tell_requests(duration_ns, cpu_ns)

    def _context(self) -> Context:
        """What is current inside: for spans of the program and for calls of models alike."""
        if self._call is None:
            return set_value(BATCH_KEY, BatchMark(None))
        root: CallPlacement = self._call.context
        context = set_value(BATCH_KEY, BatchMark(CallPlacement(root.span, root.trace_flags)))
        return trace.set_span_in_context(NonRecordingSpan(_span_context(root)), context)

    def _tell_requests(self, duration_ns: int, cpu_ns: int) -> None:
        root = _span_context(self._call.context)
        parts_ns = _parts(cpu_ns, self._shares)
        for span, share, part_ns in zip(self._requests, self._shares, parts_ns, strict=True):
            if span.is_recording():
                span.add_event(
                    semconv.BATCH_EVENT,
                    {
                        semconv.BATCH_TRACE_ID: trace.format_trace_id(root.trace_id),
                        semconv.BATCH_SPAN_ID: trace.format_span_id(root.span_id),
                        semconv.BATCH_SIZE: len(self._requests),
                        semconv.BATCH_DURATION_NS: duration_ns,
                        semconv.BATCH_CPU_TIME_NS: cpu_ns,
                        semconv.BATCH_SHARE: share,
                        semconv.BATCH_SHARE_CPU_TIME_NS: part_ns,
                    },
                )


def _span_of(request: Any) -> Span:
    """The span of a request, as far as it is at hand: else one that only names it."""
    if isinstance(request, Span):
        return request
    if isinstance(request, Context):
        return trace.get_current_span(request)
    return NonRecordingSpan(request if isinstance(request, SpanContext) else request.context)


def _span_context(placement: CallPlacement) -> SpanContext:
    trace_id, span_id = int.from_bytes(placement.span[:16], "big"), int.from_bytes(placement.span[16:], "big")
    return SpanContext(trace_id, span_id, False, TraceFlags(placement.trace_flags))


def _shares(weights: Sequence[float], count: int) -> list[float]:
    """What part of the whole each of `count` has.

    Raises:
        ValueError: there is not one weight for each, or they are no parts of a whole.
    """
    if not weights:
        return [1 / count for _ in range(count)]
    whole = sum(weights)
    if len(weights) != count or min(weights) < 0 or not 0 < whole < float("inf"):
        raise ValueError(
            f"weights must be {count} numbers, one for each request, none negative and not all 0"
        )
    return [weight / whole for weight in weights]


def _parts(whole: int, shares: Sequence[float]) -> list[int]:
    """`whole` in parts that add up to it, each within 1 of its share."""
    parts, given, wanted = [], 0, 0.0
    for index, share in enumerate(shares):
        wanted += share * whole
        end = whole if index == len(shares) - 1 else round(wanted)
        parts.append(end - given)
        given = end
    return parts
