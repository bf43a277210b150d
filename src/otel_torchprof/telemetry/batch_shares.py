"""What each request had of a batch: known at its end but for the time on devices, which its recording tells.

By then the spans of the requests have ended as a rule, and take no events any more. So where a device worked
each request gets a span of its own for its share, below its span and by the same way.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext

from otel_torchprof import semconv_batch as semconv
from otel_torchprof.telemetry.after_fork import rebuild_after_fork
from otel_torchprof.telemetry.reason_log import ReasonLog
from otel_torchprof.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.trace import TracerProvider

    from otel_torchprof.spans import TraceStats

_logger = logging.getLogger(__name__)

# Of batches whose recordings never come: dropped, or ended before the batch did.
_MAX_REMEMBERED = 1024


@dataclass(frozen=True, slots=True, eq=False)
class EndedBatch:
    """A batch that was recorded. `shares` add up to 1, one for each request."""

    requests: Sequence[Span]
    shares: Sequence[float]
    root: SpanContext
    begin_unix_ns: int
    duration_ns: int
    cpu_time_ns: int

    def attributes(self, device_time_ns: int | None = None) -> list[dict[str, str | int | float]]:
        """Of each request, with its part of the times; without those of devices where they are not known."""
        cpu_parts_ns = parts(self.cpu_time_ns, self.shares)
        told: list[dict[str, str | int | float]] = [
            {
                semconv.BATCH_TRACE_ID: trace.format_trace_id(self.root.trace_id),
                semconv.BATCH_SPAN_ID: trace.format_span_id(self.root.span_id),
                semconv.BATCH_SIZE: len(self.requests),
                semconv.BATCH_DURATION_NS: self.duration_ns,
                semconv.BATCH_CPU_TIME_NS: self.cpu_time_ns,
                semconv.BATCH_SHARE: share,
                semconv.BATCH_SHARE_CPU_TIME_NS: part_ns,
            }
            for share, part_ns in zip(self.shares, cpu_parts_ns, strict=True)
        ]
        if device_time_ns is not None:
            for attributes, part_ns in zip(told, parts(device_time_ns, self.shares), strict=True):
                attributes[semconv.BATCH_DEVICE_TIME_NS] = device_time_ns
                attributes[semconv.BATCH_SHARE_DEVICE_TIME_NS] = part_ns
        return told


class BatchShares:
    """Keeps batches from their end to their recordings, and makes spans of shares. Raises nothing.

    `provider` makes the spans, and is asked for late: a program may set it late.
    """

    def __init__(self, provider: Callable[[], TracerProvider]) -> None:
        self._provider = provider
        self._log = ReasonLog(_logger)
        self.rebuild_in_child()
        rebuild_after_fork(self)

    def rebuild_in_child(self) -> None:
        """Forget: batches under way are the parent's."""
        self._ended: OrderedDict[tuple[int, int], EndedBatch] = OrderedDict()

    def batch_ended(self, batch: EndedBatch) -> None:
        """Keep a batch until its recording is told of."""
        if batch.requests:
            self._ended[batch.root.trace_id, batch.root.span_id] = batch
            if len(self._ended) > _MAX_REMEMBERED:
                self._ended.popitem(last=False)

    def tell_requests(self, batch: EndedBatch) -> None:
        """Add the event of a batch to the spans of its requests that are still open."""
        for request, attributes in zip(batch.requests, batch.attributes(), strict=True):
            try:
                if request.is_recording():
                    request.add_event(semconv.BATCH_EVENT, attributes)
            except Exception as error:  # of another span than the SDK's
                self._log.warn("events", f"a request was not told of its batch: {error!r}")

    def recorded(self, traces: Iterable[TraceStats]) -> None:
        """Make the spans of the batches among the traces of a recording; on the export thread."""
        for one in traces:
            batch = self._ended.pop((one.trace_id, one.span_id), None)
            if batch is not None and one.device_time_ns:
                try:
                    self._make_spans(batch, one.device_time_ns)
                except Exception as error:  # of the program's sampler or processors
                    self._log.warn(
                        "shares", f"the requests of a batch were not told of its device time: {error!r}"
                    )

    def _make_spans(self, batch: EndedBatch, device_time_ns: int) -> None:
        tracer = self._provider().get_tracer("otel_torchprof", __version__)
        links = [Link(batch.root)]
        for request, attributes in zip(batch.requests, batch.attributes(device_time_ns), strict=True):
            if request.get_span_context().is_valid:
                tracer.start_span(
                    semconv.BATCH_SHARE_SPAN,
                    trace.set_span_in_context(request, Context()),
                    attributes=attributes,
                    links=links,
                    start_time=batch.begin_unix_ns,
                ).end(batch.begin_unix_ns + batch.duration_ns)


def parts(whole: int, shares: Sequence[float]) -> list[int]:
    """`whole` in parts that add up to it, each within 1 of its share."""
    found, given, wanted = [], 0, 0.0
    for index, share in enumerate(shares):
        wanted += share * whole
        end = whole if index == len(shares) - 1 else round(wanted)
        found.append(end - given)
        given = end
    return found
