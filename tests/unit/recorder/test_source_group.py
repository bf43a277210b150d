"""Sources of a capture: each fails alone, and none into the capture."""

from __future__ import annotations

from typing import Any, cast

import pytest

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources import Source, SourceTarget, SourceUnavailable
from otel_torchprof.recorder.sources.group import SourceGroup

TARGET = cast("Any", SourceTarget)(capture=None, slot=0, bridge=None)


class Recorded(Source):
    """Writes down what it is asked for, and raises where it is told to."""

    def __init__(self, name: str, log: list[str], fails: dict[str, Exception] | None = None) -> None:
        self.name = name
        self._log = log
        self._fails = fails or {}

    def _note(self, call: str) -> None:
        self._log.append(f"{call} {self.name}")
        if call in self._fails:
            raise self._fails[call]

    def prepare(self) -> None:
        self._note("prepare")

    def start(self, target: SourceTarget) -> None:
        assert target is TARGET
        self._note("start")

    def step_begins(self) -> None:
        self._note("step")

    def stop(self) -> None:
        self._note("stop")


def test_sources_stop_once_in_reverse() -> None:
    log: list[str] = []
    group = SourceGroup([Recorded("a", log), Recorded("b", log)])
    group.prepare()
    group.start(TARGET)
    group.step_begins()
    group.stop()
    group.stop()
    assert log == [
        *("prepare a", "prepare b"),
        *("start a", "start b"),
        *("step a", "step b"),
        *("stop b", "stop a"),
    ]
    assert group.states == {"a": "on", "b": "on"}


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (SourceUnavailable("no such event: see perf list"), "off: no such event: see perf list"),
        (ValueError("surprise"), "off: ValueError"),
    ],
)
@pytest.mark.parametrize("call", ["prepare", "start"])
def test_a_source_that_cannot_start_leaves_the_others(error: Exception, state: str, call: str) -> None:
    log: list[str] = []
    group = SourceGroup([Recorded("bad start", log, {call: error}), Recorded("good", log)])
    before = failures.count("bad start is not recorded")
    group.prepare()
    group.start(TARGET)
    group.step_begins()
    group.stop()
    began = ["prepare bad start", "prepare good", *["start bad start"] * (call == "start"), "start good"]
    assert log == [*began, "step good", "stop good"]
    assert group.states == {"bad start": state, "good": "on"}
    assert failures.count("bad start is not recorded") == before + 1


def test_a_source_that_fails_later_raises_nothing() -> None:
    log: list[str] = []
    bad = Recorded("fails late", log, {"step": OSError("full"), "stop": OSError("gone")})
    group = SourceGroup([Recorded("good", log), bad])
    group.prepare()
    group.start(TARGET)
    group.step_begins()
    group.stop()
    assert log[4:] == ["step good", "step fails late", "stop fails late", "stop good"]
    assert failures.count("fails late of a step was not recorded") == 1
    assert failures.count("fails late was not stopped") == 1


def test_sources_that_were_prepared_and_not_started_are_stopped() -> None:
    log: list[str] = []
    group = SourceGroup([Recorded("a", log), Recorded("b", log)])
    group.prepare()
    group.stop()
    assert log == ["prepare a", "prepare b", "stop b", "stop a"]
