"""Makes spans into what they were made from: events on tracks, steps, links, inputs."""

from __future__ import annotations

from typing import Any

import numpy as np

from otel_torchprof import semconv
from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.device_rows import DeviceRows
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.otlp.inputs import encode_inputs
from otel_torchprof.importers.otlp.spans import Attributes, Span, SpanBatch
from otel_torchprof.importers.otlp.tracks import SpanTracks
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import (
    COUNTER_DTYPE,
    EventFlags,
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    SpanContext,
    StepFlags,
    StepPhase,
)

_MAX_TIME_NS = (1 << 62) - 1
_INT32 = (1 << 31) - 1
_UINT32 = (1 << 32) - 1
_MAX_ERROR_CHARACTERS = 256
_DAY_NS = 86_400_000_000_000
_STEP_SPAN_NAME = "torch.step"
_CAPTURE_SPAN_NAME = "torch.capture"
_ON_DEVICE = frozenset(
    {EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.SYNC, EventKind.ANNOTATION}
)
# at::RecordScope by value, as spans spell it.
_SCOPES = (
    "function", "backward_function", "torchscript_function", "kernel_function_dtype", "custom_class",
    "build_feature", "lite_interpreter", "user_scope", "static_runtime_op", "static_runtime_model",
)  # fmt: skip
_USER_SCOPE = _SCOPES.index("user_scope")
_OURS = frozenset({semconv.SCOPE, semconv.EVENT_KIND, semconv.CUDA_STREAM_ID})
_LINK_TYPES = {
    "forward_backward": LinkType.FORWARD_BACKWARD,
    "launch": LinkType.LAUNCH,
    "other": LinkType.OTHER,
}
_FOLDED = (semconv.FOLDED_COUNT, semconv.FOLDED_TIME_NS, semconv.FOLDED_DEVICE_TIME_NS)
_FOLDED_NOTE = (
    "{:,} events are not in the file one by one: they were folded into the spans that enclose them, which "
    "have all their time, to keep traces within their limits. OTEL_PYTHON_TORCHPROF_MAX_SPANS_PER_TRACE=0 "
    "and OTEL_PYTHON_TORCHPROF_MAX_TRACE_BYTES=0 leave them be, and a .tprof recording has every one."
)
_RESOURCE_KEYS = {"torch.rank": "rank", "torch.world_size": "world_size"}
_RESOURCE_TEXTS = {"service.name": "service_name", "service.instance.id": "service_instance_id"}


class SpanRestorer:
    """Takes batches of spans and makes one recording of them all."""

    def __init__(self, report: ImportReport, max_name_characters: int) -> None:
        self._builder = RecordingBuilder()
        self._report = report
        self._max_name_characters = max_name_characters
        self._draft = EventDraft()
        self._tracks = SpanTracks()
        self._rows: dict[bytes, int] = {}
        self._links: list[tuple[int, bytes, LinkType]] = []
        self._steps: list[tuple[Span, int]] = []
        self._devices = DeviceRows()
        self._counters: list[tuple[int, int, int, int, float]] = []
        self._folded = 0

    def add(self, batch: SpanBatch) -> None:
        """Takes the spans of one resource."""
        metadata = _resource_metadata(batch.resource)
        if metadata:
            self._builder.add_metadata(metadata)
        process = to_int(batch.resource.get("process.pid"), 0, 0, _UINT32)
        service = str(batch.resource.get("service.name") or "")
        for span in batch.spans:
            self._add_span(span, process, service)

    def finish(self) -> Recording:
        """Links, and returns the recording."""
        builder = self._builder
        self._tracks.add_to(builder)
        self._draft.add_to(builder)
        builder.add_devices(self._devices.table())
        for span, track in self._steps:
            self._add_step(span, track)
        links: set[tuple[int, int, LinkType]] = set()
        for row, target, link_type in self._links:
            other = self._rows.get(target)
            if other is None:
                self._report.add_problem("link_target_missing")
            elif link_type == LinkType.LAUNCH and self._draft.kind[row] in _ON_DEVICE:
                links.add((other, row, link_type))
            elif link_type != LinkType.FORWARD_BACKWARD or not self._follows_from_numbers(row, other):
                links.add((row, other, link_type))
        for from_row, to_row, link_type in sorted(links):
            builder.add_link(from_row, to_row, link_type)
        if self._counters:
            builder.add_counters(np.array(self._counters, dtype=COUNTER_DTYPE))
        if not len(self._draft) and not self._steps:
            self._report.add_problem("no_spans")
        if self._folded:
            builder.add_metadata({"folded_events": self._folded})
            self._report.notes.append(_FOLDED_NOTE.format(self._folded))
        recording, overruns = builder.finish_mended(rounding_ns=0, stream_ns=_MAX_TIME_NS)
        self._report.add_problem("crossing_slices", overruns.crossing)
        return recording

    def _add_span(self, span: Span, process: int, service: str) -> None:
        if not (0 < span.start_ns <= _MAX_TIME_NS or _begins_at_zero(span)):
            self._report.add_problem("no_time")
            return
        if not span.start_ns <= span.end_ns <= _MAX_TIME_NS:
            self._report.add_problem("negative_duration" if span.end_ns else "no_duration")
            span.end_ns = span.start_ns
        attributes = span.attributes
        self._folded += to_int(attributes.get(semconv.FOLDED_COUNT), 0, 0)
        if _is_root(span):
            if span.name == _STEP_SPAN_NAME:
                self._steps.append((span, self._tracks.thread(process, attributes)))
            else:
                self._builder.cover(span.start_ns, span.end_ns)
            return
        kind = _kind(attributes)
        if kind is None:
            # A lane: it comes again as the track of what ran on it.
            self._report.counts["lanes"] += 1
            return
        track = (
            self._tracks.stream(process, attributes)
            if semconv.CUDA_STREAM_ID in attributes
            else self._tracks.thread(process, attributes)
            if semconv.THREAD_ID in attributes
            else self._tracks.of_trace(process, service, span.trace_id)
        )
        self._add_event(span, kind, track, process)

    def _add_event(self, span: Span, kind: EventKind, track: int, process: int) -> None:
        attributes = span.attributes
        flags = EventFlags(0)
        end_track = 0
        if attributes.get(semconv.ASYNC) is True:
            flags |= EventFlags.ASYNC
        if attributes.get(semconv.UNFINISHED) is True:
            flags |= EventFlags.UNFINISHED
        if attributes.get(semconv.INPUT_CUT) is True:
            flags |= EventFlags.PAYLOAD_CUT
        if kind == EventKind.MODULE and isinstance(training := attributes.get(semconv.MODULE_TRAINING), bool):
            flags |= EventFlags.TRAINING if training else EventFlags.EVALUATION
        if semconv.END_THREAD_ID in attributes:
            flags |= EventFlags.OTHER_THREAD
            end_track = self._tracks.thread(process, {semconv.THREAD_ID: attributes[semconv.END_THREAD_ID]})
        inputs = encode_inputs(attributes)
        row = self._draft.add(
            span.start_ns,
            span.end_ns,
            self._name(attributes.get(semconv.ORIGINAL_NAME) or span.name, attributes),
            track,
            kind,
            _scope(attributes, kind),
            flags,
            to_int(attributes.get(semconv.SEQUENCE_NUMBER), -1, -1),
            to_int(attributes.get(semconv.FORWARD_THREAD_ID), 0, 0, _UINT32),
            end_track,
            _correlation(attributes),
            self._builder.add_payload(inputs) if inputs else 0,
            self._error(attributes),
        )
        self._rows[span.trace_id + span.span_id] = row
        if semconv.CUDA_STREAM_ID in attributes:
            self._devices.add(row, **_device_fields(attributes))
        for name in _FOLDED:
            if isinstance(value := attributes.get(name), int):
                name_id = self._builder.add_name(name)
                self._counters.append((span.start_ns, row, track, name_id, float(value)))
        for link in span.links:
            link_type = _LINK_TYPES.get(str(link.attributes.get(semconv.LINK_TYPE, "other")))
            if link_type is not None:
                self._links.append((row, link.trace_id + link.span_id, link_type))

    def _add_step(self, span: Span, track: int) -> None:
        attributes = span.attributes
        flags = StepFlags(0)
        number = to_int(attributes.get(semconv.STEP_NUMBER), -1, -1)
        if number >= 0:
            flags |= StepFlags.HAS_NUMBER
        if attributes.get(semconv.STEP_PARTIAL) is True:
            flags |= StepFlags.PARTIAL
        context = SpanContext(bytes(16), bytes(8))
        if span.parent_id:
            flags |= StepFlags.IN_PARENT
            context = _context(span.trace_id, span.parent_id)
        requests: list[SpanContext] = []
        for link in span.links:
            kind = link.attributes.get(semconv.LINK_TYPE)
            if kind == "request":
                requests.append(_context(link.trace_id, link.span_id))
            elif kind == "context" and not span.parent_id:
                context = _context(link.trace_id, link.span_id)
        phase = str(attributes.get(semconv.STEP_PHASE, "")).upper()
        self._builder.add_step(
            span.start_ns,
            span.end_ns,
            number,
            track=track,
            phase=StepPhase[phase] if phase in StepPhase.__members__ else StepPhase.UNKNOWN,
            flags=flags,
            context=context,
            context_trace_flags=span.flags & 0xFF,
            links=requests,
        )

    def _follows_from_numbers(self, row: int, forward: int) -> bool:
        """Whether thread and sequence number say the same as a link from a backward to its forward op."""
        draft = self._draft
        thread = self._tracks.torch_thread_id(draft.track[forward])
        return (
            draft.sequence[row] >= 0
            and draft.sequence[row] == draft.sequence[forward]
            and draft.forward_thread[row] == thread != 0
        )

    def _error(self, attributes: Attributes) -> int:
        error = attributes.get(semconv.ERROR_TYPE)
        return self._builder.add_name(error[:_MAX_ERROR_CHARACTERS]) if isinstance(error, str) else 0

    def _name(self, name: Any, attributes: Attributes) -> int:
        text, overload = str(name), _overload(attributes)
        if len(text) > self._max_name_characters:
            self._report.add_problem("name_cut")
            text = text[: self._max_name_characters]
        return self._builder.add_name(text, overload[: self._max_name_characters])


def _overload(attributes: Attributes) -> str:
    """Of an op its overload name, of a Python function `file:line`, of a module its path."""
    if attributes.get(semconv.EVENT_KIND) == "python":
        file, line = attributes.get(semconv.CODE_FILE_PATH), attributes.get(semconv.CODE_LINE_NUMBER)
        return f"{file}:{line}" if isinstance(file, str) and isinstance(line, int) else ""
    is_module = attributes.get(semconv.EVENT_KIND) == "module"
    overload = attributes.get(semconv.MODULE_PATH if is_module else semconv.OP_OVERLOAD)
    return overload[:256] if isinstance(overload, str) else ""


def _is_root(span: Span) -> bool:
    """An event that is called like a step has a scope or, on a device, a kind; roots have neither."""
    is_event = semconv.SCOPE in span.attributes or semconv.EVENT_KIND in span.attributes
    return span.name in {_STEP_SPAN_NAME, _CAPTURE_SPAN_NAME} and not is_event


def _begins_at_zero(span: Span) -> bool:
    """Traces without an epoch may begin at 0, and so do our spans of them; elsewhere 0 is no time."""
    is_ours = _is_root(span) or not _OURS.isdisjoint(span.attributes)
    return span.start_ns == 0 and 0 <= span.end_ns < _DAY_NS and is_ours


def _kind(attributes: Attributes) -> EventKind | None:
    name = attributes.get(semconv.EVENT_KIND)
    if isinstance(name, str):
        return EventKind.__members__.get(name.upper(), EventKind.OTHER)
    if semconv.CUDA_STREAM_ID in attributes and semconv.CUDA_DEVICE_INDEX in attributes:
        return None
    scope = attributes.get(semconv.SCOPE)
    if scope == "user_scope":
        return EventKind.USER
    return EventKind.SPAN if scope is None else EventKind.OP


def _scope(attributes: Attributes, kind: EventKind) -> int:
    scope = attributes.get(semconv.SCOPE)
    if scope in _SCOPES:
        return _SCOPES.index(scope)
    return _USER_SCOPE if kind == EventKind.USER else 0


def _device_fields(attributes: Attributes) -> dict[str, Any]:
    """What is known of work on a device, by the names of the table of devices."""
    return {
        "device": to_int(attributes.get(semconv.CUDA_DEVICE_INDEX), -1, -1, _INT32),
        "stream": to_int(attributes.get(semconv.CUDA_STREAM_ID), -1),
        "grid": _dimensions(attributes.get(semconv.KERNEL_GRID)),
        "block": _dimensions(attributes.get(semconv.KERNEL_BLOCK)),
        "registers": to_int(attributes.get(semconv.KERNEL_REGISTERS), -1, -1, _INT32),
        "shared_bytes": to_int(attributes.get(semconv.KERNEL_SHARED_MEMORY_BYTES), -1, -1, _INT32),
        "size_bytes": to_int(attributes.get(semconv.MEMCPY_SIZE_BYTES), -1, -1),
        "graph_id": to_int(attributes.get(semconv.GRAPH_ID), -1, -1),
        "graph_node_id": to_int(attributes.get(semconv.GRAPH_NODE_ID), -1, -1),
        "wait_stream": to_int(attributes.get(semconv.SYNC_STREAM_ID), -1, -1, _INT32),
        "wait_event": to_int(attributes.get(semconv.SYNC_EVENT_ID), -1, -1, _INT32),
        "wait_correlation": to_int(attributes.get(semconv.SYNC_CORRELATION_ID), -1, -1),
    }


def _dimensions(values: Any) -> list[int] | None:
    if not isinstance(values, list) or len(values) != 3:
        return None
    return [to_int(value, 0, 0, _UINT32) for value in values]


def _correlation(attributes: Attributes) -> int:
    several = attributes.get(semconv.CORRELATION_IDS)
    first = several[0] if isinstance(several, list) and several else None
    return to_int(attributes.get(semconv.CORRELATION_ID, first), -1, -1)


def _context(trace_id: bytes, span_id: bytes) -> SpanContext:
    return SpanContext(trace_id[:16].ljust(16, b"\0"), span_id[:8].ljust(8, b"\0"))


def _resource_metadata(resource: Attributes) -> dict[str, object]:
    """An allow-list: of a resource only what names the run."""
    metadata: dict[str, object] = {
        ours: value
        for theirs, ours in _RESOURCE_KEYS.items()
        if isinstance(value := resource.get(theirs), int)
    }
    for theirs, ours in _RESOURCE_TEXTS.items():
        if isinstance(text := resource.get(theirs), str):
            metadata[ours] = text[:256]
    return metadata
