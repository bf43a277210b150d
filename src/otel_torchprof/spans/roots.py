"""The top spans of traces: one a recorded step, or one for a recording without steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from otel_torchprof._native import core
from otel_torchprof.recording import EventContext, Recording, SpanContext, Step, StepFlags

STEP_SPAN_NAME = "torch.step"
CAPTURE_SPAN_NAME = "torch.capture"
BATCH_SPAN_NAME = "torch.batch"

_SAMPLED = 1  # of W3C trace flags

LinkType = Literal["previous_step", "context", "request"]


class Run(Protocol):
    """What tells the processes of a job, and its restarts, from each other."""

    @property
    def run_id(self) -> str: ...
    @property
    def restart(self) -> int: ...
    @property
    def rank(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class RootLink:
    """A link to a span outside the plan."""

    trace_id: int
    span_id: int
    type: LinkType


@dataclass(frozen=True, slots=True)
class RootEvent:
    """Something to say of a root, at a time (unix) within it."""

    name: str
    time_ns: int
    attributes: Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class Root:
    """The top span of a trace, which holds the events that start between `start_ns` and the next root.

    `step` is the index of its step in the recording, `number` what the training loop calls it; both are -1
    for a capture. `parent_span_id` is 0 for the root of a trace of its own. A root that is not sampled takes
    its events along: neither becomes a span.

    A root with `rows` holds those events of the recording and all that they enclose or launch instead. With
    `is_external` it is a span that somebody else sends, and only what it holds becomes spans; else it is the
    first of the rows.
    """

    trace_id: int
    span_id: int
    start_ns: int
    end_ns: int
    parent_span_id: int = 0
    step: int = -1
    number: int = -1
    name: str = STEP_SPAN_NAME
    is_sampled: bool = True
    links: tuple[RootLink, ...] = ()
    events: tuple[RootEvent, ...] = ()
    rows: tuple[int, ...] = ()
    is_external: bool = False


def step_ids(run: Run, number: int) -> tuple[int, int]:
    """Trace id (for a step that is a root) and span id of step `number`, the same wherever asked for."""
    return core.step_ids(run.run_id, run.restart, run.rank or 0, number)


def roots_from_steps(
    recording: Recording,
    run: Run,
    *,
    sampled: Sequence[bool] | None = None,
    previous: RootLink | None = None,
) -> list[Root]:
    """The roots of `recording`: its steps, or the whole capture where it has none.

    Events that belong under spans of other traces have those as their roots.

    A step recorded as part of the span that was current at its start becomes its child, sampled as that span
    was; any other is the root of a trace of its own with a link to that span.

    Args:
        run: what the ids of steps follow from.
        sampled: for each step, whether the sampler takes it as a root; None for all.
        previous: the step captured before this recording, which the first step links to.
    """
    if not recording.steps:
        whole = capture_root(recording)
        if not recording.contexts:
            return [whole]
        # What nobody asked for is no part of any trace.
        return [replace(whole, is_sampled=False), *_context_roots(recording)]
    roots: list[Root] = []
    for index, step in enumerate(recording.steps):
        root = _step_root(step, index, run, sampled is None or sampled[index], previous)
        roots.append(root)
        if root.is_sampled:
            previous = RootLink(root.trace_id, root.span_id, "previous_step")
    return roots + _context_roots(recording)


def capture_root(recording: Recording) -> Root:
    """One root over all of `recording`."""
    trace_id, span_id = core.capture_ids(recording.native)
    events = recording.events
    start_ns, end_ns = recording.start_ns, recording.end_ns
    if len(recording):
        start_ns = min(start_ns, int(events.start_ns.min()))
        end_ns = max(end_ns, int(events.end_ns.max()))
    return Root(trace_id, span_id, start_ns, end_ns, name=CAPTURE_SPAN_NAME)


def _step_root(step: Step, index: int, run: Run, is_sampled: bool, previous: RootLink | None) -> Root:
    # A step without a number goes by its start, below all numbers.
    own_trace_id, span_id = step_ids(run, step.number if step.number >= 0 else -step.start_ns)
    links = [previous] if previous is not None else []
    trace_id, parent_span_id = own_trace_id, 0
    if step.context.is_valid and StepFlags.IN_PARENT in step.flags:
        trace_id, parent_span_id = _ids(step.context)
        is_sampled = bool(step.context_trace_flags & _SAMPLED)
    elif step.context.is_valid:
        links.append(RootLink(*_ids(step.context), "context"))
    links += [RootLink(*_ids(link), "request") for link in step.links if link.is_valid]
    return Root(
        trace_id,
        span_id,
        step.start_ns,
        step.end_ns,
        parent_span_id=parent_span_id,
        step=index,
        number=step.number,
        is_sampled=is_sampled,
        links=tuple(links),
    )


def _context_roots(recording: Recording) -> list[Root]:
    """One root for each span that events belong under: a request's, or the first of the events itself."""
    by_span: dict[SpanContext, list[EventContext]] = {}
    for context in recording.contexts:
        if context.context.is_valid:
            by_span.setdefault(context.context, []).append(context)
    return [_context_root(recording, contexts) for contexts in by_span.values()]


def _context_root(recording: Recording, contexts: list[EventContext]) -> Root:
    contexts = sorted(contexts, key=lambda context: not context.is_root)
    first = contexts[0]
    rows = [context.row for context in contexts]
    trace_id, span_id = _ids(first.context)
    name = recording.event_name(first.row)
    link_type: LinkType = "request" if name == BATCH_SPAN_NAME else "context"
    spanned = rows[:1] if first.is_root else rows
    return Root(
        trace_id,
        span_id,
        int(recording.events.start_ns[spanned].min()),
        int(recording.events.end_ns[spanned].max()),
        name=name,
        is_sampled=bool(first.trace_flags & _SAMPLED),
        links=tuple(RootLink(*_ids(link), link_type) for link in first.links if link.is_valid),
        rows=tuple(rows),
        is_external=not first.is_root,
    )


def _ids(context: SpanContext) -> tuple[int, int]:
    return int.from_bytes(context.trace_id, "big"), int.from_bytes(context.span_id, "big")
