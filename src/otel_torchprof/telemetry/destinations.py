"""Where the spans of a recording go: encoded requests to a sender, or span objects to an SDK exporter."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.reason_log import ReasonLog
from otel_torchprof.telemetry.send_result import EXPORTER_FAILED, SHUT_DOWN, RequestSender, SendResult
from otel_torchprof.telemetry.work_time import work_time

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

    from otel_torchprof.spans.span_data import SpanData

_logger = logging.getLogger(__name__)

EXPORTER_BATCH_SPANS = 512
_GIVE_UP_AFTER_UNREACHABLE = 2

# Seconds left to export in; None while there is no end in sight. Asked again and again: a shutdown may begin.
TimeLeft = Callable[[], "float | None"]


class EncodedRequest(Protocol):
    """An encoded `ExportTraceServiceRequest` and the number of spans in it.

    `stripped_spans` of them were too large for a request and go without attributes.
    """

    @property
    def payload(self) -> bytes: ...

    @property
    def spans(self) -> int: ...

    @property
    def stripped_spans(self) -> int: ...


class ExportWork(Protocol):
    """The spans of one recording, made when they are asked for, which is on the export thread."""

    @property
    def size_bytes(self) -> int:
        """Memory held until the work is done."""
        ...

    def requests(self) -> Iterable[EncodedRequest]: ...

    def spans(self) -> Iterable[SpanData]: ...

    def delivered(self) -> None:
        """Called when all spans have arrived in at least one place."""
        ...


class Destination(Protocol):
    """One place that all work goes to. What its methods raise is a fault of the work, not of the place."""

    @property
    def address(self) -> str:
        """The place, fit for a log."""
        ...

    def export(self, work: ExportWork, time_left: TimeLeft) -> SendResult:
        """What became of the spans, which is counted already."""
        ...

    def cancel(self) -> None:
        """Make an `export` on another thread end soon. Does not block."""
        ...

    def close(self) -> None: ...


class RequestDestination:
    """Sends encoded requests; gives a recording up when the server is out of reach."""

    def __init__(self, sender: RequestSender, counters: ExportCounters) -> None:
        self.sender = sender
        self._counters = counters
        self._log = ReasonLog(_logger)

    @property
    def address(self) -> str:
        """See `Destination.address`."""
        return self.sender.address

    def export(self, work: ExportWork, time_left: TimeLeft) -> SendResult:
        unreachable_in_a_row = 0
        last_result = total = SendResult()
        for request in work.requests():
            if request.stripped_spans:
                self._counters.add_stripped_spans(request.stripped_spans)
                self._log.warn(
                    "stripped",
                    f"{request.stripped_spans} span(s) go without attributes, which are too large to be sent"
                    ": record fewer inputs (OTEL_PYTHON_TORCHPROF_RECORD_SHAPES=false)",
                )
            if unreachable_in_a_row < _GIVE_UP_AFTER_UNREACHABLE:
                with work_time.measured():
                    last_result = self.sender.send(request.payload, request.spans, timeout_s=time_left())
                self._counters.add_result(last_result, len(request.payload))
                unreachable_in_a_row = unreachable_in_a_row + 1 if last_result.unreachable else 0
                total += last_result
            else:
                reason = next(iter(last_result.dropped_by_reason))
                given_up = SendResult.dropped(reason, request.spans)
                self._counters.add_result(given_up)
                total += given_up
        return total

    def cancel(self) -> None:
        self.sender.cancel()

    def close(self) -> None:
        self.sender.close()


class ExporterDestination:
    """Gives ordinary `ReadableSpan`s to an exporter of the SDK's interface, in batches.

    `resource` is asked for at the first export, when the program's name is known.
    """

    def __init__(
        self, exporter: SpanExporter, resource: Callable[[], Resource], counters: ExportCounters
    ) -> None:
        self.exporter = exporter
        self._resource = resource
        self._counters = counters
        self._log = ReasonLog(_logger)
        self._cancelled = False

    @property
    def address(self) -> str:
        """See `Destination.address`."""
        return type(self.exporter).__name__

    def export(self, work: ExportWork, time_left: TimeLeft) -> SendResult:
        spans = work.spans()  # planned natively, without the GIL
        with work_time.measured():
            return self._export_spans(spans, time_left)

    def _export_spans(self, spans: Iterable[SpanData], time_left: TimeLeft) -> SendResult:
        from otel_torchprof.telemetry.readable_spans import to_readable_span

        resource = self._resource()
        total = SendResult()
        for batch in _batches(spans):
            left_s = time_left()
            if self._cancelled or (left_s is not None and left_s <= 0):
                result = SendResult.dropped(SHUT_DOWN, len(batch))
            else:
                result = self._export_batch([to_readable_span(span, resource) for span in batch])
            self._counters.add_result(result)
            total += result
        return total

    def cancel(self) -> None:
        self._cancelled = True

    def close(self) -> None:
        try:
            self.exporter.shutdown()
        except Exception as error:
            self._warn(f"shutdown raised {type(error).__name__}: {error}")

    def _export_batch(self, spans: list[ReadableSpan]) -> SendResult:
        from opentelemetry.sdk.trace.export import SpanExportResult

        try:
            result = self.exporter.export(spans)
        except Exception as error:
            self._warn(f"export raised {type(error).__name__}: {error}")
            return SendResult.dropped(EXPORTER_FAILED, len(spans))
        if result is SpanExportResult.SUCCESS:
            return SendResult(delivered=len(spans))
        self._warn(f"export returned {result}")
        return SendResult.dropped(EXPORTER_FAILED, len(spans))

    def _warn(self, what: str) -> None:
        self._log.warn(EXPORTER_FAILED, f"spans not exported by {type(self.exporter).__name__}: {what}")


def _batches(spans: Iterable[SpanData]) -> Iterator[list[SpanData]]:
    iterator = iter(spans)
    while batch := list(islice(iterator, EXPORTER_BATCH_SPANS)):
        yield batch
