"""Findings of a running program: which step has which as events, what is counted, what may go wrong."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from otel_torchprof.analysis.patterns import Level, Match, PatternReport, View, find_patterns, pattern
from otel_torchprof.live import findings as live_findings
from otel_torchprof.live.findings import LiveFindings
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recording import Recording
from otel_torchprof.spans import Root, capture_root, roots_from_steps
from tests.support.finding_recordings import HOSTILE_FUNCTION, LOOPS, US, recording_with_findings
from tests.unit.spans.scenes import Run


def steps_of(recording: Recording) -> list[Root]:
    return roots_from_steps(recording, Run())


def test_the_step_in_which_it_happened_has_the_finding_as_an_event() -> None:
    recording = recording_with_findings()
    found = LiveFindings()
    first, second = found.add_to(recording, steps_of(recording))
    (event,) = first.events
    assert (event.name, event.time_ns) == ("torch.pattern", 100 * US)
    advice, url = (event.attributes[f"torch.pattern.{name}"] for name in ("advice", "url"))
    assert advice == "Write it as one operation on the whole tensor."
    assert str(url).startswith("https://")
    assert {name: value for name, value in event.attributes.items() if value not in (advice, url)} == {
        "torch.pattern.name": "for-loop-indexing",
        "torch.pattern.title": "A loop goes through a tensor one element at a time",
        "torch.pattern.severity": "high",
        "torch.pattern.confidence": "high",
        "torch.pattern.detail": "the same ops up to 39 times in a row",
        "code.function.name": "fill",
        "code.file.path": "/home/me/fill.py",
        "code.line.number": 7,
        "torch.pattern.op": "aten::select",
        "torch.pattern.count": LOOPS - 1,
        "torch.pattern.cost_ns": 195_000,
        "torch.pattern.saving_min_ns": 97_500,
        "torch.pattern.saving_max_ns": 191_100,
    }
    assert [event.attributes["code.function.name"] for event in second.events] == [HOSTILE_FUNCTION]
    assert found.counts() == [("for-loop-indexing", 2)]


def test_a_finding_in_several_steps_is_divided_among_them(monkeypatch: pytest.MonkeyPatch) -> None:
    find_only(monkeypatch, Level.HIGH)
    recording = recording_with_findings()
    roots = LiveFindings().add_to(recording, list(reversed(steps_of(recording))))
    figures = [
        [
            (event.time_ns, *(event.attributes[f"torch.pattern.{name}"] for name in ("count", "cost_ns")))
            for event in root.events
        ]
        for root in roots
    ]
    # `aten::mm` takes 50 us of the first step and 100 us of the second.
    assert figures == [[(900 * US, 1, 100 * US)], [(0, 1, 50 * US)]]
    assert [root.events[0].attributes["torch.pattern.saving_max_ns"] for root in roots] == [50 * US, 25 * US]


def test_without_steps_the_whole_recording_has_the_events() -> None:
    recording = recording_with_findings()
    (root,) = LiveFindings().add_to(recording, [capture_root(recording)])
    assert [event.time_ns for event in root.events] == [100 * US, 600 * US]


def test_of_too_many_the_most_costly_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_findings, "MAX_EVENTS_PER_STEP", 1)
    recording = recording_with_findings()
    (root,) = LiveFindings().add_to(recording, [capture_root(recording)])
    assert [event.attributes["code.function.name"] for event in root.events] == ["fill"]


def test_what_is_not_sure_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    find_only(monkeypatch, Level.LOW)
    recording = recording_with_findings()
    found = LiveFindings()
    assert [root.events for root in found.add_to(recording, steps_of(recording))] == [(), ()]
    assert found.counts() == []


def test_a_failure_costs_the_findings_and_no_span(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_recording: Recording) -> PatternReport:
        raise RuntimeError("a fault in a pattern")

    monkeypatch.setattr(live_findings, "find_patterns", fail)
    recording = recording_with_findings()
    roots = steps_of(recording)
    before = failures.count("anti-patterns were not looked for")
    found = LiveFindings()
    assert found.add_to(recording, roots) == roots
    assert failures.count("anti-patterns were not looked for") == before + 1
    assert found.counts() == []


def find_only(monkeypatch: pytest.MonkeyPatch, confidence: Level) -> None:
    """Finds nothing but `aten::mm`, with half of its time to be saved."""

    half = "half \ud800"

    @pattern("products", title=half, why="", found="", advice=half, example="", limits="", url="")
    def products(view: View) -> Iterator[Match]:
        yield Match(np.flatnonzero(view.named("aten::mm")), confidence, "seen", saving=(0.0, 0.5))

    monkeypatch.setattr(live_findings, "find_patterns", lambda one: find_patterns(one, [products]))
