"""Requests to a sender, span objects to an exporter: what is counted when either fails."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.destinations import ExporterDestination, RequestDestination
from otel_torchprof.telemetry.send_result import SendResult
from tests.support.export_work import HandMadeWork

RESOURCE = Resource({"service.name": "train.py"})


class ScriptedSender:
    address = "nowhere:4317"

    def __init__(self, *results: SendResult) -> None:
        self.results = list(results)
        self.timeouts: list[float | None] = []
        self.cancelled = self.closed = False

    def send(self, payload: bytes, spans: int, *, timeout_s: float | None = None) -> SendResult:
        self.timeouts.append(timeout_s)
        return self.results.pop(0) if self.results else SendResult(delivered=spans)

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.closed = True


def no_end() -> None:
    return None


def test_what_senders_report_is_counted() -> None:
    counters = ExportCounters()
    sender = ScriptedSender(
        SendResult(delivered=1, rejected=1),
        SendResult(dropped_by_reason={"refused": 2}),
        SendResult(delivered=2),
    )
    destination = RequestDestination(sender, counters)
    work = HandMadeWork(requests=3, spans_per_request=2)
    result = destination.export(work, lambda: 4.0)
    assert result == SendResult(delivered=3, rejected=1, dropped_by_reason={"refused": 2})
    counts = counters.counts()
    assert (counts.sent_spans, counts.rejected_spans, counts.failed_spans) == (3, 1, {"refused": 2})
    assert counts.sent_bytes == sum(len(request.payload) for request in work.requests()) * 2 // 3
    assert sender.timeouts == [4.0, 4.0, 4.0]


def test_spans_that_had_to_go_without_attributes_are_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    counters = ExportCounters()
    destination = RequestDestination(ScriptedSender(), counters)
    destination.export(HandMadeWork(requests=2, spans_per_request=3, stripped_spans=1), no_end)
    counts = counters.counts()
    assert (counts.sent_spans, counts.stripped_spans) == (6, 2)
    assert caplog.messages == [
        "otel-torchprof: 1 span(s) go without attributes, which are too large to be sent: "
        "record fewer inputs (OTEL_PYTHON_TORCHPROF_RECORD_SHAPES=false)"
    ]


@pytest.mark.parametrize("reason", ["timeout", "unavailable", "tls"])
def test_a_server_out_of_reach_is_asked_twice_a_recording(reason: str) -> None:
    counters = ExportCounters()
    sender = ScriptedSender(*[SendResult.dropped(reason, 2)] * 9)
    result = RequestDestination(sender, counters).export(
        HandMadeWork(requests=5, spans_per_request=2), no_end
    )
    assert result == SendResult.dropped(reason, 10)
    assert len(sender.timeouts) == 2
    assert counters.counts().failed_spans == {reason: 10}


def test_a_server_that_refuses_one_request_gets_the_next() -> None:
    counters = ExportCounters()
    sender = ScriptedSender(*[SendResult.dropped("refused", 2)] * 4)
    RequestDestination(sender, counters).export(HandMadeWork(requests=5, spans_per_request=2), no_end)
    assert len(sender.timeouts) == 5
    assert counters.counts().failed_spans == {"refused": 8}
    assert counters.counts().sent_spans == 2


def test_cancel_and_close_reach_the_sender() -> None:
    sender = ScriptedSender()
    destination = RequestDestination(sender, ExportCounters())
    destination.cancel()
    destination.close()
    assert (sender.cancelled, sender.closed) == (True, True)


class BatchExporter(InMemorySpanExporter):
    def __init__(self) -> None:
        super().__init__()
        self.batch_sizes: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.batch_sizes.append(len(spans))
        return super().export(spans)


def test_an_exporter_gets_ordinary_spans_in_batches() -> None:
    exporter = BatchExporter()
    counters = ExportCounters()
    result = ExporterDestination(exporter, lambda: RESOURCE, counters).export(
        HandMadeWork(requests=1, spans_per_request=1200), no_end
    )
    assert result.complete
    assert exporter.batch_sizes == [512, 512, 176]
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [f"op{number}" for number in range(1200)]
    assert {span.resource for span in spans} == {RESOURCE}
    assert counters.counts().sent_spans == 1200


def test_the_resource_is_not_asked_for_before_there_are_spans() -> None:
    def too_early() -> Resource:
        raise AssertionError("asked for")

    ExporterDestination(InMemorySpanExporter(), too_early, ExportCounters()).close()


class BadExporter(SpanExporter):
    def __init__(self, *, raises: bool) -> None:
        self._raises = raises

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        if self._raises:
            raise OSError("disk on fire")
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        raise OSError("still on fire")


@pytest.mark.parametrize(
    ("raises", "said"),
    [
        (True, "otel-torchprof: spans not exported by BadExporter: export raised OSError: disk on fire"),
        (
            False,
            "otel-torchprof: spans not exported by BadExporter: export returned SpanExportResult.FAILURE",
        ),
    ],
)
def test_an_exporter_that_fails_is_counted_and_logged_once(
    raises: bool, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    counters = ExportCounters()
    destination = ExporterDestination(BadExporter(raises=raises), lambda: RESOURCE, counters)
    destination.export(HandMadeWork(requests=1, spans_per_request=600), no_end)
    destination.close()
    assert counters.counts().failed_spans == {"exporter_failed": 600}
    assert [record.getMessage() for record in caplog.records] == [said]


def test_no_time_left_or_cancelled_means_dropped() -> None:
    counters = ExportCounters()
    exporter = InMemorySpanExporter()
    destination = ExporterDestination(exporter, lambda: RESOURCE, counters)
    destination.export(HandMadeWork(spans_per_request=3), lambda: 0.0)
    destination.cancel()
    destination.export(HandMadeWork(spans_per_request=2), no_end)
    assert exporter.get_finished_spans() == ()
    assert counters.counts().failed_spans == {"shut_down": 5}
