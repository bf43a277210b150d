"""A finished span as plain data: what the span plan yields to anything that is not the native OTLP encoder.

Nothing here knows OpenTelemetry's SDK; ids are integers, times are unix nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

AttributeValue: TypeAlias = (
    str | bool | int | float | Sequence[str] | Sequence[bool] | Sequence[int] | Sequence[float]
)
Attributes: TypeAlias = Mapping[str, AttributeValue]


@dataclass(frozen=True, slots=True)
class SpanLink:
    """A reference to another span; `trace_id` has 128 bits, `span_id` 64."""

    trace_id: int
    span_id: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened at `time_ns` (unix) inside a span."""

    name: str
    time_ns: int
    attributes: Attributes = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanData:
    """One finished span of kind INTERNAL.

    `parent_span_id` is 0 for a root. `error` is the status description of a failed span (it may be empty),
    None where nothing failed: the status is then unset.
    """

    name: str
    trace_id: int
    span_id: int
    parent_span_id: int
    start_ns: int
    end_ns: int
    attributes: Attributes = field(default_factory=dict)
    links: tuple[SpanLink, ...] = ()
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None
