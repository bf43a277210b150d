"""Looks for all patterns in one recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from otel_torchprof.analysis.patterns.finding import (
    Finding,
    Level,
    NotChecked,
    Numbers,
    PatternReport,
    Place,
    Saving,
    SlowStep,
)
from otel_torchprof.analysis.patterns.merge import merge_causes
from otel_torchprof.analysis.patterns.pattern import Match, Pattern
from otel_torchprof.analysis.patterns.registry import installed_patterns, own_patterns
from otel_torchprof.analysis.patterns.view import View
from otel_torchprof.analysis.steps import NO_PROBLEMS
from otel_torchprof.recording import Recording, StepFlags

# What mending may save at most, as a share of the time that was recorded.
_HIGH_SHARE, _MEDIUM_SHARE = 0.10, 0.02
_LISTED = 3  # modules and ops that a place names


def find_patterns(
    recording: Recording,
    patterns: Iterable[Pattern] | None = None,
    *,
    problems: Mapping[str, int] = NO_PROBLEMS,
) -> PatternReport:
    """Findings in a recording, and the patterns that it holds too little for.

    The same recording always gives the same findings, in the same order.

    Args:
        patterns: which to look for; None = ours, and those of other packages.
        problems: what was wrong with the file that it was read from: of one that was cut off no step counts.
    """
    view = View(recording, problems)
    found: list[Finding] = []
    not_checked: list[NotChecked] = []
    looked_for: dict[str, Pattern] = {}
    for pattern in own_patterns() if patterns is None else patterns:
        looked_for[pattern.name] = pattern
        missing = pattern.missing(view)
        if missing:
            needs = tuple(need.value for need in missing)
            not_checked.append(NotChecked(pattern.name, f"needs {', '.join(needs)}", needs))
        elif len(recording):
            found += _findings(view, pattern)
    for point in installed_patterns() if patterns is None else ():
        try:
            pattern = point.load()
            more = find_patterns(recording, [pattern], problems=problems)
        except Exception as error:  # of another package: it must not cost the findings of all others
            not_checked.append(NotChecked(point.name, f"failed: {type(error).__name__}: {error}"))
            continue
        looked_for[pattern.name] = pattern
        found += more.findings
        not_checked += more.not_checked
    merged = merge_causes(view, found, looked_for)
    return PatternReport(
        tuple(sorted(merged, key=_order)),
        tuple(not_checked),
        view.steps,
        view.step_times.left_out,
        _slow_step(view),
        view.window_ns,
    )


def _slow_step(view: View) -> SlowStep | None:
    times = view.step_times
    index = times.outlier
    if index is None:
        return None
    step = view.recording.steps[index]
    number = step.number if StepFlags.HAS_NUMBER in step.flags else None
    return SlowStep(index, number, step.duration_ns, times.median_ns)


def _order(finding: Finding) -> tuple[object, ...]:
    saving = finding.saving
    return (
        -finding.severity,
        -finding.confidence,
        -saving.high_ns,
        finding.pattern,
        str(finding.place),
        int(finding.rows[0]),
    )


def _findings(view: View, pattern: Pattern) -> Iterator[Finding]:
    for match in pattern.find(view):
        if len(match.rows):
            for place, chosen in _by_place(view, match):
                yield _finding(view, pattern, match, place, chosen)


def _by_place(view: View, match: Match) -> Iterator[tuple[Place, Numbers]]:
    """Places and the indexes into the rows of what is there, in order of the first event.

    A function is one place, whatever modules and ops it runs; so is the whole program where none is known.
    """
    places = view.places(match.rows)
    if not match.has_place:
        places = [replace(place, function="", file="", line=0) for place in places]
    indexes: dict[tuple[str, str, int], list[int]] = {}
    for index, place in enumerate(places):
        indexes.setdefault((place.function, place.file, place.line), []).append(index)
    for (function, file, line), chosen in indexes.items():
        modules = dict.fromkeys(places[index].module for index in chosen)
        ops = dict.fromkeys(places[index].op for index in chosen)
        yield Place(function, file, line, _listed(modules), _listed(ops)), np.array(chosen, dtype=np.int64)


def _listed(names: Iterable[str]) -> str:
    known = [name for name in names if name]
    more = f" and {len(known) - _LISTED} more" if len(known) > _LISTED else ""
    return ", ".join(known[:_LISTED]) + more


def _finding(view: View, pattern: Pattern, match: Match, place: Place, chosen: Numbers) -> Finding:
    rows = match.rows[chosen]
    costs_ns = view.duration_ns[rows] if match.cost_ns is None else match.cost_ns[chosen]
    cost_ns = int(costs_ns.sum())
    in_steps = view.in_counted_steps(rows)
    low, high = match.saving
    saving = Saving(round(cost_ns * low), round(cost_ns * high))
    severity = max(match.severity, _severity(saving, view.window_ns))
    if match.confidence is Level.LOW:
        severity = Level.LOW
    return Finding(
        pattern=pattern.name,
        title=pattern.title,
        severity=severity,
        confidence=match.confidence,
        place=place,
        detail=match.detail,
        rows=rows,
        count_per_step=int(in_steps.sum()) / view.steps if view.steps else None,
        cost_ns=cost_ns,
        cost_per_step_ns=round(int(costs_ns[in_steps].sum()) / view.steps) if view.steps else None,
        row_costs_ns=costs_ns,
        cost_bytes=0 if match.cost_bytes is None else int(match.cost_bytes[chosen].sum()),
        saving=saving,
        advice=pattern.advice,
        example=pattern.example,
        url=pattern.url,
    )


def _severity(saving: Saving, window_ns: int) -> Level:
    share = saving.high_ns / window_ns
    if share >= _HIGH_SHARE:
        return Level.HIGH
    return Level.MEDIUM if share >= _MEDIUM_SHARE else Level.LOW
