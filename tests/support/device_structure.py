"""What must hold of device work in any recording, whoever decoded it: a trace's importer or our collector.

Each check computes what it expects from the columns alone, in a few plain lines, and returns how many pieces
of work it looked at, so that a test can say that it looked at some.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from otel_torchprof import semconv
from otel_torchprof.analysis.event_names import short_kernel_name
from otel_torchprof.metrics.families import HistogramPoint, NumberPoint
from otel_torchprof.metrics.from_recording import families_from_recording
from otel_torchprof.recording import EventKind, LinkType, Recording, TrackKind
from otel_torchprof.semconv_metrics import (
    CUDA_DEVICE_INDEX,
    DEVICE_BUSY_TIME,
    DEVICE_WORK,
    KERNEL_LAUNCH_DELAY,
    KERNEL_LAUNCHES,
    KERNEL_NAME,
    KERNEL_TIME,
)
from otel_torchprof.spans import SpanData, SpanLimits, plan_spans, roots_from_steps

WORK = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
CALLS = (EventKind.RUNTIME, EventKind.DRIVER)


def work_rows(recording: Recording) -> list[int]:
    """Kernels, copies and fills."""
    return [int(row) for row in np.flatnonzero(np.isin(recording.events.kind, WORK))]


def callers(recording: Recording) -> dict[int, int]:
    """By work, the runtime or driver call that a link of launching joins it with."""
    links, kind = recording.links, recording.events.kind
    found: dict[int, int] = {}
    for one, other, link in zip(
        links.from_event.tolist(), links.to_event.tolist(), links.type.tolist(), strict=True
    ):
        if link == LinkType.LAUNCH:
            call, work = (other, one) if kind[one] in WORK else (one, other)
            if kind[work] in WORK and kind[call] in CALLS:
                found[work] = call
    return found


def check_lanes(recording: Recording) -> int:
    """All work is on the line of a stream, which knows its device."""
    rows = work_rows(recording)
    for row in rows:
        track = recording.tracks[int(recording.events.track[row])]
        assert track.kind == TrackKind.STREAM, recording.event_name(row)
        assert track.device >= 0, recording.event_name(row)
    return len(rows)


def check_links(recording: Recording) -> int:
    """Work is linked with the one call of its correlation id, which began before it."""
    events, found = recording.events, callers(recording)
    for work, call in found.items():
        assert events.correlation[work] == events.correlation[call] >= 0
        assert events.start_ns[call] <= events.start_ns[work], recording.event_name(work)
    return len(found)


def check_spans(recording: Recording) -> int:
    """Each piece of work is a span below the lane of its stream, with what is known of its launch and shape;
    the span of what launched it carries the same correlation id, and every span on a thread the device time
    and the kernels of all that it and those below it launched."""
    spans = Spans.of(recording)
    expected, launched_by = _expected_work(recording), callers(recording)
    got: Counter[object] = Counter()
    for span in spans.work:
        lane = spans.lane_of(span)
        attributes = span.attributes
        assert f"stream {attributes[semconv.CUDA_STREAM_ID]}" in lane.name
        shape = tuple(tuple(attributes.get(name, ())) for name in (semconv.KERNEL_GRID, semconv.KERNEL_BLOCK))  # type: ignore[arg-type]
        values = tuple(attributes.get(name, -1) for name in _NUMBERS)
        got[span.start_ns, span.end_ns, attributes[semconv.CUDA_DEVICE_INDEX], shape, values] += 1
    assert got == expected
    _check_launchers(spans, len(launched_by))
    _check_ancestors(spans)
    return len(spans.work)


_NUMBERS = (
    semconv.KERNEL_REGISTERS, semconv.KERNEL_SHARED_MEMORY_BYTES, semconv.MEMCPY_SIZE_BYTES,
    semconv.MEMCPY_BYTES_PER_SECOND, semconv.LAUNCH_DELAY_NS, semconv.LAUNCH_QUEUE_DEPTH,
)  # fmt: skip


def _expected_work(recording: Recording) -> Counter[object]:
    events, found = recording.events, callers(recording)
    records = {int(record["event"]): record for record in recording.devices}
    of_stream: dict[int, list[int]] = defaultdict(list)
    for row in work_rows(recording):
        of_stream[int(events.track[row])].append(row)
    expected: Counter[object] = Counter()
    for track, rows in of_stream.items():
        rows.sort(key=lambda row: (int(events.start_ns[row]), row))
        for place, row in enumerate(rows):
            start_ns, end_ns = int(events.start_ns[row]), int(events.end_ns[row])
            delay_ns = depth = -1
            if row in found:
                launched_ns = int(events.end_ns[found[row]])
                delay_ns = max(start_ns - launched_ns, 0)
                # In order, so that all that follows the first that had not ended waits behind it.
                ended = [int(events.end_ns[before]) <= launched_ns for before in rows[:place]]
                depth = place - ended.index(False) if False in ended else 0
            size_bytes = rate = registers = shared_bytes = -1
            shape: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
            if row in records:
                record = records[row]
                grid, block = record["grid"].tolist(), record["block"].tolist()
                shape = (tuple(grid) if grid[0] else (), tuple(block) if block[0] else ())
                registers, shared_bytes = int(record["registers"]), int(record["shared_bytes"])
                size_bytes = int(record["size_bytes"])
                if size_bytes >= 0 and end_ns > start_ns:
                    rate = int(size_bytes / (end_ns - start_ns) * 1e9)
            values = (registers, shared_bytes, size_bytes, rate, delay_ns, depth)
            expected[start_ns, end_ns, recording.tracks[track].device, shape, values] += 1
    return expected


def _check_launchers(spans: Spans, linked: int) -> None:
    """What a launch link leads to bears the number of the work, and has the time of it."""
    checked = 0
    for work in spans.work:
        for link in work.links:
            if link.attributes[semconv.LINK_TYPE] != "launch":
                continue
            launcher = spans.by_id[link.trace_id, link.span_id]
            ids = launcher.attributes.get(semconv.CORRELATION_IDS)
            own = launcher.attributes.get(semconv.CORRELATION_ID)
            correlation = work.attributes[semconv.CORRELATION_ID]
            # Of many only the first are named.
            assert correlation == own or (ids is not None and (correlation in ids or len(ids) == 32))  # type: ignore[arg-type,operator]
            assert "launch" in str(launcher.attributes[semconv.LINK_TYPE])
            checked += 1
    assert checked >= linked


def _check_ancestors(spans: Spans) -> None:
    """Sums from below: each launch counts on its launcher and on all above it."""
    device_ns: Counter[tuple[int, int]] = Counter()
    kernels: Counter[tuple[int, int]] = Counter()
    for work in spans.work:
        launchers = [link for link in work.links if link.attributes[semconv.LINK_TYPE] == "launch"]
        if not launchers:
            continue
        above = spans.by_id.get((launchers[0].trace_id, launchers[0].span_id))
        while above is not None:
            key = (above.trace_id, above.span_id)
            device_ns[key] += work.end_ns - work.start_ns
            kernels[key] += work.attributes[semconv.EVENT_KIND] == "kernel"
            above = spans.by_id.get((above.trace_id, above.parent_span_id))
    for key, span in spans.by_id.items():
        if semconv.THREAD_ID in span.attributes and span.name != "torch.step":
            assert span.attributes.get(semconv.DEVICE_TIME_NS, 0) == device_ns[key], span.name
            assert span.attributes.get(semconv.KERNEL_COUNT, 0) == kernels[key], span.name


@dataclass(frozen=True)
class Run:
    run_id: str = "run"
    restart: int = 0
    rank: int | None = 0


@dataclass(frozen=True)
class Spans:
    """All spans of a recording, none folded."""

    by_id: dict[tuple[int, int], SpanData]
    work: list[SpanData]

    @classmethod
    def of(cls, recording: Recording) -> Spans:
        limits = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0)
        plan = plan_spans(recording, roots_from_steps(recording, Run()), limits)
        spans = list(plan.spans())
        work = [span for span in spans if span.attributes.get(semconv.EVENT_KIND) in _WORK_NAMES]
        return cls({(span.trace_id, span.span_id): span for span in spans}, work)

    def lane_of(self, span: SpanData) -> SpanData:
        """Annotations of a stream may lie between."""
        while semconv.EVENT_KIND in span.attributes:
            span = self.by_id[span.trace_id, span.parent_span_id]
        return span


_WORK_NAMES = {"kernel", "memcpy", "memset"}


def check_metrics(recording: Recording) -> int:
    """Metrics of kernels and devices are sums over the work, and the delays those of the spans."""
    events, found = recording.events, callers(recording)
    launches: Counter[tuple[str, int]] = Counter()
    kernel_ns: Counter[tuple[str, int]] = Counter()
    delays_ns: Counter[int] = Counter()
    intervals: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for row in work_rows(recording):
        device = recording.tracks[int(events.track[row])].device
        start_ns, end_ns = int(events.start_ns[row]), int(events.end_ns[row])
        intervals[device].append((start_ns, end_ns))
        if events.kind[row] == EventKind.KERNEL:
            key = (short_kernel_name(recording.event_name(row)), device)
            launches[key] += 1
            kernel_ns[key] += end_ns - start_ns
            if row in found:
                delays_ns[device] += max(start_ns - int(events.end_ns[found[row]]), 0)
    got: dict[str, Counter[object]] = defaultdict(Counter)
    for family in families_from_recording(recording):
        for point in family.points:
            device = int(point.attributes.get(CUDA_DEVICE_INDEX, -1))
            if family.metric.name in {KERNEL_LAUNCHES, KERNEL_TIME} and isinstance(point, NumberPoint):
                scale = 1e9 if family.metric.name == KERNEL_TIME else 1
                got[family.metric.name][point.attributes[KERNEL_NAME], device] += round(point.value * scale)
            elif family.metric.name == KERNEL_LAUNCH_DELAY and isinstance(point, HistogramPoint):
                got[KERNEL_LAUNCH_DELAY][device] += round(point.sum * 1e9)
            elif family.metric.name == DEVICE_BUSY_TIME and point.attributes[DEVICE_WORK] == "any":
                assert isinstance(point, NumberPoint)
                got[DEVICE_BUSY_TIME][device] += round(point.value * 1e9)
    if len(launches) <= 40:  # what a metric names before it says `other`
        assert got[KERNEL_LAUNCHES] == launches
        assert got[KERNEL_TIME] == kernel_ns
    assert sum(got[KERNEL_LAUNCHES].values()) == sum(launches.values())
    assert sum(got[KERNEL_TIME].values()) == sum(kernel_ns.values())
    assert +got[KERNEL_LAUNCH_DELAY] == +delays_ns
    assert got[DEVICE_BUSY_TIME] == {device: _covered_ns(parts) for device, parts in intervals.items()}
    return sum(launches.values())


def _covered_ns(intervals: list[tuple[int, int]]) -> int:
    covered, until = 0, -1
    for start, end in sorted(intervals):
        covered += max(end, until) - max(start, until) if end > until else 0
        until = max(until, end)
    return covered
