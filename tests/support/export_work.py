"""Spans to export in tests: the work a pipeline takes, made by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from otel_torchprof.spans.span_data import SpanData
from tests.support.requests import make_request


@dataclass(frozen=True)
class HandMadeRequest:
    payload: bytes
    spans: int
    stripped_spans: int = 0


class HandMadeWork:
    """`requests` requests of `spans_per_request` spans each, and the same number of span objects."""

    def __init__(
        self,
        requests: int = 1,
        spans_per_request: int = 2,
        *,
        size_bytes: int = 100,
        padding_bytes: int = 0,
        stripped_spans: int = 0,
    ) -> None:
        self.size_bytes = size_bytes
        self.deliveries = 0
        self._requests = requests
        self._spans_per_request = spans_per_request
        self._padding_bytes = padding_bytes
        self._stripped_spans = stripped_spans

    def requests(self) -> Iterator[HandMadeRequest]:
        for _ in range(self._requests):
            request = make_request(self._spans_per_request, padding_bytes=self._padding_bytes)
            payload = request.SerializeToString()
            yield HandMadeRequest(payload, self._spans_per_request, self._stripped_spans)

    def delivered(self) -> None:
        self.deliveries += 1

    def spans(self) -> Sequence[SpanData]:
        return [
            SpanData(f"op{number}", 7, number + 1, 0, 1_000 + number, 2_000 + number)
            for number in range(self._requests * self._spans_per_request)
        ]
