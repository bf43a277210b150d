"""The spans of a recording: planned once, then read as objects or encoded as OTLP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_torchprof._native import core
from otel_torchprof.recording import Recording
from otel_torchprof.semconv import SCHEMA_URL
from otel_torchprof.spans.roots import Root
from otel_torchprof.spans.span_data import SpanData, SpanEvent, SpanLink
from otel_torchprof.version import __version__

SCOPE_NAME = "otel_torchprof"
# Below the 4 MiB that gRPC servers accept by default.
MAX_REQUEST_BYTES = 3_670_016
MAX_REQUEST_SPANS = 8192


@dataclass(frozen=True, slots=True)
class SpanLimits:
    """What a trace may hold, its root included; 0 = no bound. The rest is folded into the spans around it.

    `runtime_spans` makes spans of runtime and driver calls too, which otherwise fold into their op.
    """

    max_spans_per_trace: int = 2000
    max_trace_bytes: int = 2_000_000
    min_span_duration_ns: int = 0
    runtime_spans: bool = False


DEFAULT_LIMITS = SpanLimits()


@dataclass(frozen=True, slots=True)
class EncodedRequest:
    """A serialized ExportTraceServiceRequest with `spans` spans.

    `stripped_spans` of them were too large for a request of their own and go without attributes.
    """

    payload: bytes
    spans: int
    stripped_spans: int = 0


@dataclass(frozen=True, slots=True)
class TraceStats:
    """What became of the events of one root: `spans` kept (the root included), `folded` into those.

    `max_size_bytes` is a bound on their encoded size; 0 when no bound was asked for. `device_time_ns` is the
    time of the kernels, copies and memsets that the events launched.
    """

    trace_id: int
    span_id: int
    spans: int
    folded: int
    max_size_bytes: int
    device_time_ns: int


class SpanPlan:
    """Which events of a recording become spans, and how. Made by `plan_spans`; holds on to the recording."""

    def __init__(self, native: core.SpanPlan) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    @property
    def stats(self) -> tuple[TraceStats, ...]:
        """One for each root, by start."""
        return tuple(TraceStats(*trace) for trace in self._native.stats())

    def spans(self) -> Iterator[SpanData]:
        """All spans, parents before their children."""
        for index in range(len(self._native)):
            name, trace_id, span_id, parent_span_id, start_ns, end_ns, attributes, links, events, error = (
                self._native.span(index)
            )
            yield SpanData(
                name,
                trace_id,
                span_id,
                parent_span_id,
                start_ns,
                end_ns,
                attributes,
                tuple(SpanLink(*link) for link in links),
                tuple(SpanEvent(*event) for event in events),
                error=error or None,
            )

    def encode(
        self,
        resource: bytes,
        *,
        scope_name: str = SCOPE_NAME,
        scope_version: str = __version__,
        schema_url: str = SCHEMA_URL,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        max_request_spans: int = MAX_REQUEST_SPANS,
    ) -> Iterator[EncodedRequest]:
        """The spans as OTLP, in as few requests as the bounds allow.

        Each is encoded when it is asked for, so that memory holds one; the GIL is released meanwhile.

        Args:
            resource: a serialized `opentelemetry.proto.resource.v1.Resource`, repeated in each request.
            schema_url: of the scope and its spans.
        """
        requests = self._native.encode(
            resource, scope_name, scope_version, schema_url, max_request_bytes, max_request_spans
        )
        return (EncodedRequest(*request) for request in requests)


def plan_spans(recording: Recording, roots: Sequence[Root], limits: SpanLimits = DEFAULT_LIMITS) -> SpanPlan:
    """Plan the spans of `recording` under `roots`. The GIL is released meanwhile.

    Raises:
        ValueError: no roots, or one with a zero id, an end before its start or a step that is not there.
    """
    native_roots = [
        (
            root.trace_id.to_bytes(16, "big"),
            root.span_id,
            root.parent_span_id,
            int(root.is_sampled),
            root.start_ns,
            root.end_ns,
            root.step,
            root.number,
            root.name,
            [(link.trace_id.to_bytes(16, "big"), link.span_id, link.type) for link in root.links],
            [(event.name, event.time_ns, list(event.attributes.items())) for event in root.events],
            list(root.rows),
            root.is_external,
        )
        for root in roots
    ]
    return SpanPlan(
        core.plan_spans(
            recording.native,
            native_roots,
            limits.max_spans_per_trace,
            limits.max_trace_bytes,
            limits.min_span_duration_ns,
            limits.runtime_spans,
        )
    )
