"""Anti-patterns in what was recorded of a running program: events on the spans of steps, and counts."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from otel_torchprof import semconv
from otel_torchprof.analysis.patterns import Finding, Level, find_patterns
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recording import Recording
from otel_torchprof.spans import Root, RootEvent

MAX_EVENTS_PER_STEP = 32  # the most costly ones


class LiveFindings:
    """Looks for anti-patterns in one recording after the other, on the export thread. Raises nothing."""

    def __init__(self) -> None:
        self.start_over()

    def start_over(self) -> None:
        """Count from zero, in a forked child too."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def counts(self) -> list[tuple[str, int]]:
        """How often each pattern was found, by name."""
        with self._lock:
            return sorted(self._counts.items())

    def add_to(self, recording: Recording, roots: Sequence[Root]) -> Sequence[Root]:
        """The roots of the spans of `recording` with what was found in each as events."""
        with failures.guard("anti-patterns were not looked for"):
            found = [one for one in find_patterns(recording).findings if one.confidence > Level.LOW]
            events = _events(recording, roots, found)
            with_events = [replace(root, events=own) for root, own in zip(roots, events, strict=True)]
            with self._lock:
                self._counts.update(one.pattern for one in found)
            return with_events
        return roots


def _events(
    recording: Recording, roots: Sequence[Root], found: Sequence[Finding]
) -> list[tuple[RootEvent, ...]]:
    """For each root the findings whose events began in it."""
    in_time = np.array([index for index, root in enumerate(roots) if not root.rows], dtype=np.int64)
    starts_ns = np.array([roots[index].start_ns for index in in_time], dtype=np.int64)
    by_start = in_time[np.argsort(starts_ns, kind="stable")]
    starts_ns.sort(kind="stable")
    events: list[list[RootEvent]] = [[] for _root in roots]
    for finding in found:
        times_ns = recording.events.start_ns[finding.rows]
        place = np.searchsorted(starts_ns, times_ns, side="right") - 1
        for index in np.unique(place[place >= 0]).tolist():
            chosen = place == index
            of_root = events[int(by_start[index])]
            if len(of_root) < MAX_EVENTS_PER_STEP:
                cost_ns = int(finding.row_costs_ns[chosen].sum())
                of_root.append(_event(finding, int(times_ns[chosen].min()), int(chosen.sum()), cost_ns))
    return [tuple(of_root) for of_root in events]


def _event(finding: Finding, time_ns: int, count: int, cost_ns: int) -> RootEvent:
    place, saving = finding.place, finding.saving
    attributes: dict[str, int | str] = {
        semconv.PATTERN_NAME: finding.pattern,
        semconv.PATTERN_TITLE: finding.title,
        semconv.PATTERN_SEVERITY: finding.severity.name.lower(),
        semconv.PATTERN_CONFIDENCE: finding.confidence.name.lower(),
        semconv.PATTERN_DETAIL: finding.detail,
    }
    if place.file:
        attributes |= {
            semconv.CODE_FUNCTION_NAME: place.function,
            semconv.CODE_FILE_PATH: place.file,
            semconv.CODE_LINE_NUMBER: place.line,
        }
    attributes |= {
        semconv.PATTERN_MODULE: place.module,
        semconv.PATTERN_OP: place.op,
        semconv.PATTERN_COUNT: count,
        semconv.PATTERN_COST_NS: cost_ns,
        semconv.PATTERN_SAVING_MIN_NS: _part(saving.low_ns, cost_ns, finding.cost_ns),
        semconv.PATTERN_SAVING_MAX_NS: _part(saving.high_ns, cost_ns, finding.cost_ns),
        semconv.PATTERN_ADVICE: finding.advice,
        semconv.PATTERN_URL: finding.url,
    }
    known = {name: _encodable(value) for name, value in attributes.items() if value != ""}
    return RootEvent(semconv.PATTERN_EVENT, time_ns, known)


def _part(saving_ns: int, cost_ns: int, whole_cost_ns: int) -> int:
    return saving_ns * cost_ns // whole_cost_ns if whole_cost_ns else 0


def _encodable(value: int | str) -> int | str:
    """The same without halves of characters, which are no UTF-8."""
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
