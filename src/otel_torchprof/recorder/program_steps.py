"""The public `step()`: the program itself says where a step ends."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.steps import StepSource, process_steps


class _Program:
    """The requester that all calls of `step()` count for."""


_program = _Program()


def step(*, links: Iterable[Any] = ()) -> None:
    """Say that a step of the program ends here and the next begins. Never raises; cheap when nobody listens.

    From the first call on, optimizers and gradient scalers make no boundaries any more.

    Args:
        links: span contexts that the next step serves, such as the requests of a batch: OpenTelemetry
            `SpanContext`s, or spans or links that hold one.
    """
    if not process_steps.listening:
        return
    packed = b""
    with failures.guard("a step was not linked"):
        packed = b"".join(map(_pack_context, links))
    with failures.guard("an explicit step was not counted"):
        process_steps.advance(StepSource.EXPLICIT, _program, links=packed)


def _pack_context(link: Any) -> bytes:
    """Trace id and span id as the recorder takes them, 24 bytes; nothing for an invalid context."""
    if hasattr(link, "get_span_context"):
        link = link.get_span_context()
    elif hasattr(link, "context"):
        link = link.context
    trace_id, span_id = int(link.trace_id), int(link.span_id)
    return trace_id.to_bytes(16, "big") + span_id.to_bytes(8, "big") if trace_id and span_id else b""
