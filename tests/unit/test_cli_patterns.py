"""`otel-torchprof patterns` as users meet it: the table, JSON, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_torchprof.analysis.patterns import Need, own_patterns
from otel_torchprof.cli import main as cli
from otel_torchprof.recording import EventKind, RecordingBuilder, StepFlags
from tests.support.terminals import terminal_lines

MS = 1_000_000


@pytest.fixture
def zeroing(tmp_path: Path) -> Path:
    """Two steps of 10 ms, in each of which `[red]train` fills gradients with zeros for 2 ms."""
    return _zeroing(tmp_path, StepFlags.HAS_NUMBER)


def _zeroing(tmp_path: Path, first_step: StepFlags) -> Path:
    builder = RecordingBuilder()
    builder.add_track("main")
    for number, start_ns in enumerate((0, 10 * MS)):
        flags = StepFlags.HAS_NUMBER if number else first_step
        builder.add_step(start_ns, start_ns + 10 * MS, number, flags=flags)
        name, place = "[red]train\x1b[2J", "/home/me/train.py:7"
        builder.add_event(name, start_ns, start_ns + 9 * MS, overload=place, kind=EventKind.PYTHON)
        scope = "Optimizer.zero_grad#SGD.zero_grad"
        builder.add_event(scope, start_ns + MS, start_ns + 4 * MS, kind=EventKind.USER)
        builder.add_event("aten::zero_", start_ns + MS, start_ns + 3 * MS)
        builder.add_event("aten::mm", start_ns + 5 * MS, start_ns + 8 * MS)
    path = tmp_path / "zeroing.tprof"
    builder.finish().save(path)
    return path


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """One op."""
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_event("aten::mm", 0, MS)
    path = tmp_path / "sound.tprof"
    builder.finish().save(path)
    return path


def test_a_finding_says_what_where_and_how_to_mend_it(
    zeroing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["patterns", str(zeroing)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "gradients-zeroed: high severity, high confidence",
        "  where     /home/me/train.py:7 in [red]train\\x1b[2J, Optimizer.zero_grad#SGD.zero_grad",
        "  seen      2 fills with zeros in 2 calls of zero_grad",
        "  cost      4.000 ms in all, in 2 events; a step 2.000 ms, in 1.0",
        "  may save  2.000 ms to 4.000 ms in all",
    ]
    assert "    optimizer.zero_grad()  # not zero_grad(set_to_none=False)" in lines


def test_steps_that_do_not_count_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = _zeroing(tmp_path, StepFlags.PARTIAL)
    assert cli.main(["patterns", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  cost      4.000 ms in all, in 2 events; a step 2.000 ms, in 1.0" in lines
    assert "(a step: the mean over 1 whole step; 1 not recorded whole left out)" in lines


@pytest.mark.parametrize("width", [80, 100])
def test_no_line_is_longer_than_the_terminal(
    zeroing: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = terminal_lines(monkeypatch, width, ["patterns", str(zeroing)])
    # But what is to be copied, which the terminal wraps.
    assert max(len(line) for line in lines if not line.startswith("    ")) <= width
    assert "    https://" in next(line for line in lines if "Optimizer.zero_grad.html" in line)
    assert "  cost      4.000 ms in all, in 2 events; a step 2.000 ms, in 1.0" in lines


def test_what_was_not_recorded_is_a_line_each(zeroing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["patterns", str(zeroing)]) == 0
    lines = capsys.readouterr().out.splitlines()
    lacking = lines[
        lines.index("not checked, as these were not recorded (--json names every pattern):") + 1 :
    ]
    needs = {need for one in own_patterns() for need in one.needs} - {Need.STACKS, Need.STEPS}
    assert {line.strip().split(": ")[0] for line in lacking} == {need.value for need in needs}
    assert len(lacking) == len(needs)
    by_shapes = sum(Need.SHAPES in one.needs for one in own_patterns())
    assert f"  {Need.SHAPES.value}: {by_shapes} patterns" in lacking
    assert max(map(len, lacking)) <= 80


def test_an_empty_recording_is_no_sound_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.tprof"
    RecordingBuilder().finish().save(path)
    assert cli.main(["patterns", str(path), "--fail-on", "low"]) == 2
    said = f"otel-torchprof: {path} holds no events: nothing was recorded into it\n"
    assert capsys.readouterr() == ("", said)


def test_json_has_findings_and_what_was_not_checked(
    zeroing: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["patterns", str(zeroing), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert set(document) == {"steps", "findings", "slow_step", "not_checked"}
    assert document["steps"] == {"counted": 2, "left_out": 0}
    assert document["slow_step"] is None
    (finding,) = document["findings"]
    assert (finding["pattern"], finding["severity"], finding["confidence"]) == (
        "gradients-zeroed",
        "high",
        "high",
    )
    assert finding["where"] == {
        "file": "/home/me/train.py",
        "line": 7,
        "function": "[red]train\x1b[2J",
        "module": "",
        "op": "Optimizer.zero_grad#SGD.zero_grad",
    }
    assert (finding["count_per_step"], finding["cost_per_step_ns"]) == (1.0, 2 * MS)
    assert (finding["cost_ns"], finding["saving_ns"], finding["events"]) == (4 * MS, [2 * MS, 4 * MS], [1, 5])
    held = {Need.STACKS, Need.STEPS}
    lacking = {one.name for one in own_patterns() if set(one.needs) - held}
    assert {one["pattern"] for one in document["not_checked"]} == lacking


@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_findings_fail_a_build_on_request(level: str, zeroing: Path, sound: Path) -> None:
    assert cli.main(["patterns", str(zeroing), "--fail-on", level]) == 1
    assert cli.main(["patterns", str(sound), "--fail-on", level]) == 0


def test_a_sound_recording_has_no_findings(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["patterns", str(sound)]) == 0
    assert capsys.readouterr().out.startswith("no findings\n\nnot checked, as these")


def stalled(path: Path, numbered: StepFlags, dropped: int = 0) -> str:
    """Four steps of 10 ms, and one of 100 ms that waits for a batch."""
    builder = RecordingBuilder()
    builder.add_track("main")
    at = 0
    wait = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    for number, lasted in enumerate((10, 10, 100, 10, 10)):
        builder.add_step(at * MS, (at + lasted) * MS, number, flags=numbered)
        builder.add_event(wait, at * MS, (at + lasted - 9) * MS)
        builder.add_event("aten::mm", (at + lasted - 9) * MS, (at + lasted) * MS)
        at += lasted
    builder.add_drops("byte_cap", dropped)
    builder.finish().save(path / "stalled.tprof")
    return str(path / "stalled.tprof")


def test_a_single_stall_is_pointed_to(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = stalled(tmp_path, StepFlags.HAS_NUMBER)
    assert cli.main(["patterns", recording]) == 0
    assert capsys.readouterr().out.startswith(
        "no findings: nothing slow repeats, but one step stands out\n"
        "step 2 took 100.000 ms, 10.0 times the median: "
        "otel-torchprof report IN --step 2 shows what differs in it\n\nnot checked"
    )
    assert cli.main(["patterns", recording, "--json"]) == 0
    slow = {"number": 2, "duration_ns": 100 * MS, "median_ns": 10 * MS}
    assert json.loads(capsys.readouterr().out)["slow_step"] == slow
    assert cli.main(["report", recording, "--step", "2"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "waiting for data 91.000 ms 1.000 ms +90.000 ms" in lines


def test_a_stall_without_a_number_is_on_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["patterns", stalled(tmp_path, StepFlags(0))]) == 0
    said = "a step without a number took 100.000 ms, 10.0 times the median: report -o shows it on a page"
    assert said in capsys.readouterr().out.splitlines()


def test_it_says_that_events_are_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["patterns", stalled(tmp_path, StepFlags.HAS_NUMBER, dropped=3)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "incomplete: otel-torchprof info says what was dropped or could not be read"


def test_an_unknown_level_is_wrong_use(sound: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_of_parser:
        cli.main(["patterns", str(sound), "--fail-on", "severe"])
    assert exit_of_parser.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
