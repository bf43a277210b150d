"""What differs in a step, in `otel-torchprof report --step N`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_torchprof.cli.main import main
from otel_torchprof.recording import EventKind, RecordingBuilder, StepFlags
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
    assert lines[start : start + 6] == [
        "waits and untraced code this step median step difference",
        "untraced code 20.000 us 20.000 us none",
        "(untraced: the step's thread was in no event; recording Python calls, with_stack=True, names what "
        "ran)",
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


def test_shares_are_of_what_the_step_lasted(training: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", training, "--step", "1"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "forward 1 180.000 us 130.000 us 180.000 us 65.0%" in lines
    assert "6 events on threads, 200.000 us of self time; share is of the 200.000 us chosen" in lines
    assert main(["report", training, "--step", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    shares = {row["name"]: row["self_share"] for row in document["rows"]}
    assert (shares["forward"], document["steps_ns"]) == (0.65, 200_000)


@pytest.fixture
def with_stack(tmp_path: Path) -> str:
    """Three steps in a function that began before them; in the second it works for itself."""
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("main", -1000, 240_000, kind=EventKind.PYTHON)
    for step, (at, lasted) in enumerate([(0, 50), (50, 150), (200, 50)]):
        builder.add_step(at * 1000, (at + lasted) * 1000, step, flags=StepFlags.HAS_NUMBER)
        builder.add_event("aten::mm", (at + 5) * 1000, (at + 35) * 1000)
    builder.finish().save(tmp_path / "stack.tprof")
    return str(tmp_path / "stack.tprof")


def test_a_loop_of_python_is_named_by_the_function_that_holds_it(
    with_stack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", with_stack, "--step", "1"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "main 0 150.000 us 120.000 us - 80.0%" in lines
    assert "(0 calls: it was open already when a step began; what of it is inside counts)" in lines
    assert "main 120.000 us 20.000 us +100.000 us 0 0" in lines
    assert main(["report", with_stack, "--step", "2"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "untraced code 10.000 us 0 ns +10.000 us" in lines
    assert "(untraced: the step's thread was in no event)" in lines  # Python calls are there


@pytest.fixture
def cut_short(tmp_path: Path) -> str:
    """Three steps of which the last two are longer and hold fewer events: the others were dropped."""
    builder = RecordingBuilder()
    builder.add_track("main")
    for step, (at, lasted) in enumerate([(0, 100), (100, 500), (600, 400)]):
        builder.add_step(at * 1000, (at + lasted) * 1000, step, flags=StepFlags.HAS_NUMBER)
        for op in range(10 if step == 0 else 1):
            builder.add_event("aten::mm", (at + op) * 1000, (at + op + 1) * 1000)
    builder.add_drops("byte_cap", 5108)
    builder.finish().save(tmp_path / "short.tprof")
    return str(tmp_path / "short.tprof")


def test_nothing_is_said_of_a_step_of_which_events_are_missing(
    cut_short: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", cut_short, "--step", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "3 steps, 1 of them whole; in the table only: 2 (400.000 us, incomplete)"
    assert any(
        line.startswith("the step is incomplete: events in it were dropped or cut off") for line in lines
    )
    assert not any("untraced" in line or "differs" in line for line in lines)
    assert main(["report", cut_short, "--step", "1", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["against_median"] == {
        "steps": 1, "median_ns": 100_000, "incomplete": True, "waits": [], "changes": []
    }  # fmt: skip
    assert [step["incomplete"] for step in document["steps"]] == [False, True, True]


def test_the_only_step_that_counts_is_not_compared_with_itself(
    cut_short: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", cut_short, "--step", "0"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    place = lines.index(["waits", "and", "untraced", "code", "this", "step"])
    assert lines[place + 1] == ["untraced", "code", "90.000", "us"]


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


@pytest.mark.parametrize("more", [[], ["--step", "1"], ["--json"]])
def test_rows_by_shapes_need_shapes(
    training: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", training, "--group-by-shapes", *more]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert (
        "--group-by-shapes: the recording has no shapes of inputs; record_shapes records them" in output.err
    )


def test_a_trace_that_was_cut_off_names_no_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def event(name: str, at: int, lasted: int, category: str = "cpu_op") -> str:
        return json.dumps(
            {"ph": "X", "name": name, "cat": category, "ts": at, "dur": lasted, "pid": 1, "tid": 1}
        )

    events = []
    for step, lasted in enumerate([100, 100, 400]):
        at = step * 1000
        events += [event(f"ProfilerStep#{step}", at, lasted, "user_annotation"), event("aten::mm", at, 50)]
    whole = f'{{"traceEvents": [{", ".join(events)}]}}'
    (tmp_path / "whole.json").write_text(whole)
    (tmp_path / "cut.json").write_text(whole[:-20])
    assert main(["report", str(tmp_path / "whole.json"), "--step", "2"]) == 0
    assert "untraced code" in capsys.readouterr().out
    assert main(["report", str(tmp_path / "cut.json"), "--step", "2"]) == 0
    output = capsys.readouterr().out
    assert "the step is incomplete" in output
    assert "untraced" not in output
    for command in ("info", "report"):
        assert main([command, str(tmp_path / "cut.json"), "--json"]) == 0
        assert all(step["incomplete"] for step in json.loads(capsys.readouterr().out)["steps"])
    assert main(["patterns", str(tmp_path / "cut.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["slow_step"] is None
