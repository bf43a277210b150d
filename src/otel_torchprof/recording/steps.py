"""Steps: the iterations of a training or serving loop."""

from __future__ import annotations

from dataclasses import dataclass

from otel_torchprof.recording.kinds import StepFlags, StepPhase


@dataclass(frozen=True, slots=True)
class SpanContext:
    """Names a span: 16 and 8 bytes, all zero = none."""

    trace_id: bytes
    span_id: bytes

    @property
    def is_valid(self) -> bool:
        """Whether there is such a span: neither id is zero."""
        return any(self.trace_id) and any(self.span_id)


NO_SPAN = SpanContext(bytes(16), bytes(8))


@dataclass(frozen=True, slots=True)
class Step:
    """One step; times are unix ns."""

    start_ns: int
    end_ns: int
    number: int  # -1 = none
    track: int  # index into Recording.tracks
    phase: StepPhase
    flags: StepFlags
    context: SpanContext  # the span that was current when it began
    context_trace_flags: int
    links: tuple[SpanContext, ...]  # contexts handed in by whoever began it

    @property
    def duration_ns(self) -> int:
        """End minus start."""
        return self.end_ns - self.start_ns
