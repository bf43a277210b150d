"""Spans as they came, before they are events."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

Attributes: TypeAlias = dict[str, Any]


@dataclass(slots=True)
class Link:
    """A link to another span."""

    trace_id: bytes
    span_id: bytes
    attributes: Attributes


@dataclass(slots=True)
class Span:
    """One span; times are unix ns."""

    trace_id: bytes = b""
    span_id: bytes = b""
    parent_id: bytes = b""
    name: str = ""
    start_ns: int = 0
    end_ns: int = 0
    flags: int = 0
    attributes: Attributes = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)


@dataclass(slots=True)
class SpanBatch:
    """Spans of one resource."""

    resource: Attributes
    spans: list[Span]
