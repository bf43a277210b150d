"""What differs in a step, in `otel-torchprof report --step N`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_torchprof.cli.main import main
from tests.support.report_recordings import training_recording
from tests.support.terminals import terminal_lines


@pytest.fixture
def training(tmp_path: Path) -> str:
    training_recording().save(tmp_path / "run.tprof")
    return str(tmp_path / "run.tprof")


def test_one_step_is_compared_with_the_median(training: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", training, "--step", "1"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    start = lines.index("waits and untraced code this step median step difference")
    assert lines[start : start + 5] == [
        "waits and untraced code this step median step difference",
        "untraced code 20.000 us 20.000 us none",
        "",
        "differs on threads, in self time this step median step difference calls median calls",
        "forward 130.000 us 30.000 us +100.000 us 1 1",
    ]
    assert not any(line.startswith("differs on devices") for line in lines)


def test_json_says_the_same_in_ns(training: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", training, "--step", "1", "--json"]) == 0
    compared = json.loads(capsys.readouterr().out)["against_median"]
    assert (compared["steps"], compared["median_ns"]) == (3, 100_000)
    assert compared["waits"] == [{"name": "untraced code", "time_ns": 20_000, "usual_ns": 20_000}]
    assert compared["changes"] == [
        {
            "name": "forward",
            "side": "threads",
            "calls": 1,
            "usual_calls": 1,
            "time_ns": 130_000,
            "usual_ns": 30_000,
            "change_ns": 100_000,
        }
    ]


def test_several_steps_are_not_compared(training: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", training, "--step", "1", "--step", "2", "--json"]) == 0
    assert "against_median" not in json.loads(capsys.readouterr().out)
    assert main(["report", training, "--step", "1", "--step", "2"]) == 0
    assert "differs" not in capsys.readouterr().out


@pytest.mark.parametrize("width", [60, 80, 100])
def test_a_terminal_has_room_for_every_line(
    training: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = terminal_lines(monkeypatch, width, ["report", training, "--step", "1"])
    assert max(map(len, lines)) <= width
    assert any("+100.000 us" in line for line in lines)
