"""A batch of requests that a server answers together: a trace of its own, and what each request had of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from types import TracebackType
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach, set_value
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, TraceFlags

from otel_torchprof._native.core import span as scope
from otel_torchprof.spans import BATCH_SPAN_NAME
from otel_torchprof.telemetry.batch_shares import BatchShares, EndedBatch
from otel_torchprof.telemetry.call_context import BATCH_KEY, BatchMark, CallContexts, CallPlacement


class CallRecorder(Protocol):
    """What a batch needs of the recorder: see `CallWindows`."""

    def begin(self, current: CallPlacement, admit: Callable[[], CallPlacement | None]) -> Any: ...
    def call_began(self, call: Any) -> None: ...
    def call_ends(self, call: Any) -> None: ...


class BatchMistake(ValueError):
    """A batch cannot be what it was told to be: `what` is wrong, and the message says the way out."""

    def __init__(self, what: str, way_out: str) -> None:
        super().__init__(way_out)
        self.what = what


class Batch:
    """The context manager that `batch` returns; to be entered once.

    Args:
        requests: spans, span contexts, links or contexts of the requests.
        weights: how much of the batch each had; empty = all the same.
        recorder: records the batch, if the schedule wants it.
        contexts: places it.
        shares: is told of the batch at its end, for when its device time is known.

    Raises:
        BatchMistake: the requests or the weights are none.
    """

    def __init__(
        self,
        requests: Iterable[Any],
        weights: Sequence[float],
        recorder: CallRecorder,
        contexts: CallContexts,
        shares: BatchShares,
    ) -> None:
        self._requests = _spans_of(requests)
        self._links = [link for span in self._requests if (link := _context_of(span)).is_valid]
        self._shares = _shares(weights, len(self._requests))
        self._recorder = recorder
        self._contexts = contexts
        self._told_at_end = shares
        self._call: Any = None
        self._scope: Any = None
        self._token: Token[Context] | None = None

    def __enter__(self) -> None:
        self._call = self._recorder.begin(
            CallPlacement(), lambda: self._contexts.new_root(BATCH_SPAN_NAME, self._links)
        )
        self._token = attach(self._context())
        if self._call is not None:
            self._scope = scope(BATCH_SPAN_NAME)
            self._scope.__enter__()
            self._recorder.call_began(self._call)
        self._begin_unix_ns = time.time_ns()
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
        self._scope.__exit__(kind, error, traceback)
        ended = EndedBatch(
            requests=self._requests,
            shares=self._shares,
            root=_span_context(self._call.context),
            begin_unix_ns=self._begin_unix_ns,
            duration_ns=duration_ns,
            cpu_time_ns=cpu_ns,
        )
        self._told_at_end.batch_ended(ended)  # before its recording may be on its way
        self._recorder.call_ends(self._call)
        self._told_at_end.tell_requests(ended)

    def _context(self) -> Context:
        """What is current inside: for spans of the program and for calls of models alike."""
        if self._call is None:
            return set_value(BATCH_KEY, BatchMark(None))
        root: CallPlacement = self._call.context
        context = set_value(BATCH_KEY, BatchMark(CallPlacement(root.span, root.trace_flags)))
        return trace.set_span_in_context(NonRecordingSpan(_span_context(root)), context)


def _spans_of(requests: Iterable[Any]) -> list[Span]:
    if isinstance(requests, (Span, SpanContext, Link, Mapping)) or not isinstance(requests, Iterable):
        raise BatchMistake(
            "the requests",
            f"a {type(requests).__name__} is no list of requests: write batch([request]), with one for each",
        )
    return [_span_of(request) for request in requests]


def _context_of(span: Span) -> SpanContext:
    context = span.get_span_context()
    if not isinstance(context, SpanContext):
        raise BatchMistake(
            "a request", f"the span of a {type(span).__name__} has no context: pass those of a tracer"
        )
    return context


def _span_of(request: Any) -> Span:
    """The span of a request, as far as it is at hand: else one that only names it."""
    if isinstance(request, Span):
        return request
    if isinstance(request, Context):
        return trace.get_current_span(request)
    context = request if isinstance(request, SpanContext) else getattr(request, "context", None)
    if not isinstance(context, SpanContext):
        raise BatchMistake(
            "a request",
            f"a {type(request).__name__} is none: pass what trace.get_current_span() gives where the request "
            "is handled, or its context",
        )
    return NonRecordingSpan(context)


def _span_context(placement: CallPlacement) -> SpanContext:
    trace_id, span_id = int.from_bytes(placement.span[:16], "big"), int.from_bytes(placement.span[16:], "big")
    return SpanContext(trace_id, span_id, False, TraceFlags(placement.trace_flags))


def _shares(weights: Sequence[float], count: int) -> list[float]:
    """What part of the whole each of `count` has."""
    weights = list(weights)
    if not weights:
        return [1 / count for _ in range(count)]
    if len(weights) != count:
        raise BatchMistake(
            "the number of weights", f"{len(weights)} for {count} requests: give one for each, or none at all"
        )
    try:
        whole = float(sum(weights))
        are_parts = min(weights) >= 0 and 0 < whole < float("inf")
    except (TypeError, ValueError, OverflowError):
        are_parts = False
    if not are_parts:
        raise BatchMistake(
            "the weights", f"{weights!r:.200}: give numbers such as tokens, none negative and not all 0"
        )
    return [float(weight) / whole for weight in weights]
