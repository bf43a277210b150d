"""What becomes a span, under which name and parent: a table of docs/semantic-conventions.md."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SpanKind:
    """One row of the table of spans."""

    event: str
    name: str
    parent: str
    links: str


SPAN_KINDS = (
    SpanKind(
        "step",
        "`torch.step`",
        "the span current at its start, or none",
        "the previous captured step; the contexts it works for",
    ),
    SpanKind("recording without steps", "`torch.capture`", "none", "none"),
    SpanKind(
        "op, user span, module, Python frame",
        "its own; `ProfilerStep#12` is `torch.step`; compile ids and hashes are left out",
        "the enclosing event, else the step",
        "backward op to its forward op",
    ),
    SpanKind(
        "runtime or driver call",
        "its own; folded into the op that made it unless asked for",
        "the op that made it, else the step",
        "none",
    ),
    SpanKind(
        "request that was answered in a batch with work on a device",
        "`torch.batch.share`",
        "the request's span",
        "the batch",
    ),
    SpanKind("device lane", "`cuda:0 stream 7`", "the step", "none"),
    SpanKind(
        "kernel, copy, memset",
        "the function's qualified name without types and hashes; `Memcpy HtoD`",
        "its lane",
        "the launching call or op",
    ),
)
