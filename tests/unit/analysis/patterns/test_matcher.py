"""What the matcher makes of matches: places, counts, severities, causes, and what it could not look for."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from hypothesis import given

from otel_torchprof.analysis.patterns import (
    Level,
    Match,
    Need,
    NotChecked,
    Pattern,
    Place,
    View,
    find_patterns,
    matcher,
    own_patterns,
    pattern,
)
from otel_torchprof.analysis.patterns.pattern import Finder
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, StepFlags
from tests.support.recordings import recordings

MS = 1_000_000


def make(name: str, find: Finder, *, needs: tuple[Need, ...] = (), explains: tuple[str, ...] = ()) -> Pattern:
    texts = dict.fromkeys(("title", "why", "found", "advice", "example", "limits", "url"), "text")
    return pattern(name, **texts, needs=needs, explains=explains)(find)


def named(name: str, *, saving: tuple[float, float] = (0.5, 1.0), level: Level = Level.HIGH) -> Finder:
    def find(view: View) -> Iterator[Match]:
        yield Match(np.flatnonzero(view.named(name)), level, "seen", saving=saving)

    return find


def cut_off_steps(*flags: StepFlags) -> Recording:
    """A slow op of 1 ms before all steps, then one in each; the last has three."""
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("slow", 0, MS)
    for number, flag in enumerate(flags, 1):
        builder.add_step(number * 10 * MS, (number + 1) * 10 * MS, number, flags=flag)
        for place in range(3 if number == len(flags) else 1):
            start_ns = (number * 10 + 2 * place) * MS
            builder.add_event("slow", start_ns, start_ns + MS)
    return builder.finish()


def test_figures_of_a_step_are_of_whole_steps() -> None:
    whole, partial, unfinished = StepFlags(0), StepFlags.PARTIAL, StepFlags.UNFINISHED
    slow = [make("slow", named("slow"))]
    report = find_patterns(cut_off_steps(partial, whole, whole, unfinished), slow)
    (found,) = report.findings
    assert (found.count, found.cost_ns) == (7, 7 * MS)
    assert (found.count_per_step, found.cost_per_step_ns) == (1.0, MS)
    assert (report.steps, report.steps_left_out) == (2, 2)
    # Where none is whole they are better than nothing.
    report = find_patterns(cut_off_steps(partial, unfinished), slow)
    assert (report.findings[0].count_per_step, report.steps, report.steps_left_out) == (2.0, 2, 0)
    report = find_patterns(cut_off_steps(), slow)
    assert (report.findings[0].count_per_step, report.findings[0].cost_per_step_ns) == (None, None)


def two_functions() -> Recording:
    """100 ms and two steps; `train` runs a slow op of 8 ms in each, `check` one of 1 ms in the first."""
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("aten::mm", 0, 100 * MS, track=builder.add_track("beside"))
    for number, start_ns in enumerate((0, 50 * MS)):
        builder.add_step(start_ns, start_ns + 50 * MS, number)
        builder.add_event(
            "train", start_ns, start_ns + 20 * MS, overload="/home/me/train.py:7", kind=EventKind.PYTHON
        )
        builder.add_event(
            "Linear", start_ns + MS, start_ns + 19 * MS, overload=f"head.{number}", kind=EventKind.MODULE
        )
        library = "/usr/lib/python3/site-packages/torch/nn/functional.py:3"
        builder.add_event(
            "linear", start_ns + 2 * MS, start_ns + 18 * MS, overload=library, kind=EventKind.PYTHON
        )
        builder.add_event("slow", start_ns + 3 * MS, start_ns + 11 * MS)
    builder.add_event("check", 30 * MS, 40 * MS, overload="C:\\me\\train.py:30", kind=EventKind.PYTHON)
    builder.add_event("slow", 31 * MS, 32 * MS)
    return builder.finish()


def test_findings_of_one_function_are_one() -> None:
    train, check = find_patterns(two_functions(), [make("slow", named("slow"))]).findings
    assert train.place == Place("train", "/home/me/train.py", 7, "head.0, head.1", "slow")
    assert (train.count, train.count_per_step, train.cost_ns) == (2, 1.0, 16 * MS)
    assert train.cost_per_step_ns == 8 * MS
    assert (train.saving.low_ns, train.saving.high_ns) == (8 * MS, 16 * MS)
    assert check.place == Place("check", "C:\\me\\train.py", 30, "", "slow")  # a colon in the path
    assert (check.count, check.count_per_step) == (1, 0.5)
    assert str(check.place) == "C:\\me\\train.py:30 in check, slow"


def test_what_no_function_is_to_blame_for_is_one_finding() -> None:
    def find(view: View) -> Iterator[Match]:
        yield Match(np.flatnonzero(view.named("slow")), Level.HIGH, "seen", has_place=False)

    (found,) = find_patterns(two_functions(), [make("slow", find)]).findings
    assert found.place == Place("", "", 0, "head.0, head.1", "slow")
    assert (found.count, found.cost_ns) == (3, 17 * MS)


@pytest.mark.parametrize(
    ("saving", "level", "severity"),
    [
        ((0.0, 1.0), Level.HIGH, Level.HIGH),  # 16 of 100 ms
        ((0.0, 0.6), Level.HIGH, Level.MEDIUM),
        ((0.0, 0.1), Level.HIGH, Level.LOW),
        ((0.0, 1.0), Level.LOW, Level.LOW),
    ],
)
def test_severity_follows_from_what_mending_saves(
    saving: tuple[float, float], level: Level, severity: Level
) -> None:
    report = find_patterns(two_functions(), [make("slow", named("slow", saving=saving, level=level))])
    assert (report.findings[0].severity, report.findings[0].confidence) == (severity, level)


def test_a_cause_takes_what_it_explains() -> None:
    cause = make("cause", named("linear"), explains=("slow",))
    report = find_patterns(two_functions(), [make("slow", named("slow")), cause])
    assert [(finding.pattern, finding.place.function, finding.also) for finding in report.findings] == [
        ("cause", "train", ("slow",)),
        ("slow", "check", ()),
    ]


def test_what_a_recording_lacks_is_said() -> None:
    needs = (Need.SHAPES, Need.STACKS, Need.DEVICE, Need.STEPS)
    report = find_patterns(two_functions(), [make("picky", named("slow"), needs=needs)])
    assert report.findings == ()
    lacking = ("shapes of inputs (record_shapes)", "work on a device (CUDA or ROCm activity)")
    assert report.not_checked == (NotChecked("picky", f"needs {lacking[0]}, {lacking[1]}", lacking),)


def test_nothing_can_be_checked_in_an_empty_recording() -> None:
    report = find_patterns(Recording.empty())
    assert report.findings == ()
    assert {one.pattern for one in report.not_checked} == {one.name for one in own_patterns() if one.needs}


class Package:
    """Entry points that name what is here."""

    broken = make("broken", lambda view: [Match(np.array([len(view)]), Level.HIGH, "beyond the end")])
    slow = make("slow", named("slow"))


def test_patterns_of_other_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    points = tuple(
        EntryPoint(name, f"{__name__}:Package.{name}", "otel_torchprof_patterns")
        for name in ("broken", "slow")
    )
    monkeypatch.setattr(EntryPoint, "load", lambda point: getattr(Package, point.name))
    monkeypatch.setattr(matcher, "installed_patterns", lambda: points)
    report = find_patterns(two_functions())
    assert {finding.pattern for finding in report.findings} == {"slow"}
    (failed,) = [one for one in report.not_checked if one.pattern == "broken"]
    assert failed.reason.startswith("failed: IndexError: ")


def test_patterns_have_names_of_their_own() -> None:
    names = [one.name for one in own_patterns()]
    assert len(names) == len(set(names)) > 0
    assert {name for one in own_patterns() for name in one.explains} <= set(names)


@given(recordings())
def test_any_recording_has_a_report_and_always_the_same(recording: Recording) -> None:
    first, second = find_patterns(recording), find_patterns(recording)
    assert first.not_checked == second.not_checked
    assert [(one.pattern, one.place, one.rows.tolist(), one.saving) for one in first.findings] == [
        (one.pattern, one.place, one.rows.tolist(), one.saving) for one in second.findings
    ]
