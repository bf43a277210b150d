"""The command line as users meet it: output, exit codes, one line on standard error."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from otel_torchprof.cli import main as cli
from otel_torchprof.recording import (
    EventKind,
    Recording,
    RecordingBuilder,
    StepFlags,
    StepPhase,
    TrackKind,
)
from otel_torchprof.spans import SpanLimits, capture_root, plan_spans
from otel_torchprof.telemetry.otlp_json import request_to_json_line
from otel_torchprof.version import __version__
from tests.support.privileges import bound_by_permissions

COMMAND = [sys.executable, "-c", "import sys; from otel_torchprof.cli.main import main; sys.exit(main())"]
SECOND = 1_000_000_000


@pytest.fixture
def tprof(tmp_path: Path) -> Path:
    """Main thread: `train` holds two `aten::add`, one of them holding `aten::mul`; worker: one evil name."""
    builder = RecordingBuilder()
    main = builder.add_track("MainThread", process_id=77, thread_id=77)
    worker = builder.add_track("worker", process_id=77, thread_id=78)
    base = 1_700_000_000 * SECOND
    builder.add_event("train", base, base + 10_000, track=main, kind=EventKind.USER)
    builder.add_event("aten::add", base + 1_000, base + 5_000, track=main)
    builder.add_event("aten::mul", base + 2_000, base + 3_500, track=main)
    builder.add_event("aten::add", base + 6_000, base + 7_000, track=main)
    builder.add_event("[red]evil\x1b[2J\n", base, base + 500, track=worker)
    builder.add_step(base, base + 10_000, 3, phase=StepPhase.TRAIN, flags=StepFlags.HAS_NUMBER)
    path = tmp_path / "a.tprof"
    builder.finish().save(path)
    return path


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120
    )


def test_report_shows_each_name_once_by_self_time(tprof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tprof)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "1 step: 3 (10.000 us)",
        "",
        "on threads calls total self mean share",
        "train 1 10.000 us 5.000 us 10.000 us 47.6%",
        "aten::add 2 5.000 us 3.500 us 2.500 us 33.3%",
        "aten::mul 1 1.500 us 1.500 us 1.500 us 14.3%",
        "[red]evil\\x1b[2J\\x0a 1 500 ns 500 ns 500 ns 4.8%",
        "5 events on threads; share is of their 10.500 us of self time",
    ]


@pytest.mark.parametrize(
    ("sort", "names"),
    [
        ("calls", ["aten::add", "train", "aten::mul"]),
        ("total", ["train", "aten::add", "aten::mul"]),
        ("mean", ["train", "aten::add", "aten::mul"]),
        ("name", ["[red]evil\x1b[2J\n", "aten::add", "aten::mul"]),
    ],
)
def test_report_sorts_and_limits(
    tprof: Path, sort: str, names: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(tprof), "--sort", sort, "--limit", "3", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)["rows"]] == names


@pytest.mark.parametrize(("sort", "kind"), [("memory", "memory"), ("device-memory", "device memory")])
def test_report_does_not_sort_by_memory_that_was_not_recorded(
    tprof: Path, sort: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(tprof), "--sort", sort]) == 2
    said = f"--sort {sort}: the recording has no {kind} of operators; profile_memory records it"
    assert capsys.readouterr() == ("", f"otel-torchprof: {said}\n")


@pytest.mark.parametrize("options", [[], ["--json"], ["-o", "page.html"]])
def test_report_of_nothing_says_so(
    options: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    RecordingBuilder().finish().save(tmp_path / "empty.tprof")
    assert cli.main(["report", "empty.tprof", *options]) == 2
    said = "otel-torchprof: empty.tprof holds no events: nothing was recorded into it\n"
    assert capsys.readouterr() == ("", said)
    assert not (tmp_path / "page.html").exists()


def test_report_of_a_recording_cut_before_its_events_says_what_is_missing(
    tprof: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tprof.read_bytes()
    tprof.write_bytes(whole[: 16 * 1024])
    assert cli.main(["report", str(tprof)]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"otel-torchprof: {tprof} holds no events: what could not be read: ")
    assert "file_cut_off" in said
    assert cli.main(["info", str(tprof)]) == 0


def test_report_says_how_much_the_limit_left_out(tprof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tprof), "--limit", "1"]) == 0
    assert "... 3 more names (--limit 0 shows all)" in capsys.readouterr().out
    assert cli.main(["report", str(tprof), "--limit", "0"]) == 0
    assert "more names" not in capsys.readouterr().out


def test_report_as_json_has_whole_numbers(tprof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(tprof), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {"calls": report["calls"], "self_ns": report["self_ns"]} == {"calls": 5, "self_ns": 10_500}
    (add,) = [row for row in report["rows"] if row["name"] == "aten::add"]
    assert (add["kind"], add["calls"], add["total_ns"], add["self_ns"], add["mean_ns"]) == (
        "op",
        2,
        5_000,
        3_500,
        2_500.0,
    )


@pytest.fixture
def steps_tprof(tmp_path: Path) -> Path:
    """Steps 3 to 9 with one `aten::add` each, step 5 the slowest; nobody finished step 9."""
    builder = RecordingBuilder()
    builder.add_track("MainThread")
    for number in range(3, 10):
        start_ns = number * 10_000
        lasted_ns = 9_000 if number == 5 else 1_000 + number
        flags = StepFlags.HAS_NUMBER | (StepFlags.UNFINISHED if number == 9 else StepFlags(0))
        builder.add_step(start_ns, start_ns + lasted_ns, number, flags=flags)
        builder.add_event("aten::add", start_ns, start_ns + lasted_ns // 2)
    builder.add_event("aten::mul", 200_000, 200_010)
    path = tmp_path / "steps.tprof"
    builder.finish().save(path)
    return path


def test_report_shows_the_slowest_steps_first(steps_tprof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(steps_tprof)]) == 0
    assert capsys.readouterr().out.splitlines()[:3] == [
        "7 steps, 6 of them whole, median 1.006 us; slowest first: 5 (9.000 us), 8 (1.008 us), 7 (1.007 us), "
        "6 (1.006 us), 4 (1.004 us), 2 more (--json shows all)",
        "(--step 5 shows what is in the slowest alone)",
        "",
    ]
    assert cli.main(["report", str(steps_tprof), "--json"]) == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    assert cli.main(["info", str(steps_tprof), "--json"]) == 0
    assert steps == json.loads(capsys.readouterr().out)["steps"]


@pytest.mark.parametrize(
    ("numbers", "self_ns", "said"),
    [
        (["5"], 4_500, "5 (9.000 us)"),
        (["4", "5"], 5_002, "5 (9.000 us), 4 (1.004 us)"),
    ],
)
def test_report_counts_chosen_steps_alone(
    steps_tprof: Path, numbers: list[str], self_ns: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = [argument for number in numbers for argument in ("--step", number)]
    assert cli.main(["report", str(steps_tprof), *chosen]) == 0
    head = "7 steps, 6 of them whole, median 1.006 us; in the table only: "
    assert capsys.readouterr().out.splitlines()[0] == head + said
    assert cli.main(["report", str(steps_tprof), *chosen, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [(row["name"], row["calls"]) for row in report["rows"]] == [("aten::add", len(numbers))]
    assert report["self_ns"] == self_ns


def test_steps_of_which_a_part_was_recorded_come_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = RecordingBuilder()
    builder.add_track("MainThread")
    for number, (start_us, flags) in enumerate([(0, StepFlags.PARTIAL), (50, StepFlags.UNFINISHED)]):
        start_ns, end_ns = start_us * 1_000, start_us * 1_000 + 9_000
        builder.add_step(start_ns, end_ns, number, flags=flags | StepFlags.HAS_NUMBER)
    builder.finish().save(tmp_path / "parts.tprof")
    assert cli.main(["report", str(tmp_path / "parts.tprof")]) == 0
    head = "2 steps; slowest first: 0 (9.000 us, partial), 1 (9.000 us, unfinished)"
    assert capsys.readouterr().out.splitlines()[0] == head


def test_a_step_that_is_not_there_is_told_with_those_that_are(
    steps_tprof: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(steps_tprof), "--step", "12"]) == 2
    assert capsys.readouterr() == ("", "otel-torchprof: the recording has no step 12: its steps are 3 to 9\n")


def test_info_shows_tracks_and_steps(tprof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", str(tprof)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "events 5 (op 4, user 1)" in lines
    assert "began 2023-11-14 22:13:20.000 UTC" in lines
    assert "lasted 10.000 us" in lines
    assert "format tprof" in lines
    assert "2 tracks" in lines
    assert "1 step" in lines
    assert "MainThread thread 77 4" in lines
    assert "worker thread 78 1" in lines
    assert "3 train 10.000 us" in lines
    assert "dropped none" in lines


def test_info_shows_tracks_of_one_name_together_and_whose_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = RecordingBuilder()
    for _ in range(3):  # as the traces of one service in an OTLP file are
        builder.add_event("GET /", 0, 10, track=builder.add_track("shop", TrackKind.OTHER))
    for process_id in (7, 8):
        track = builder.add_track("MainThread", process_id=process_id, thread_id=process_id)
        for _ in range(process_id):
            builder.add_event("aten::add", 0, 10, track=track)
    builder.finish().save(tmp_path / "a.tprof")
    assert cli.main(["info", str(tmp_path / "a.tprof")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    start = lines.index("5 tracks")
    assert lines[start + 1 : start + 5] == [
        "name kind id process events",
        "MainThread thread 8 8 8",
        "MainThread thread 7 7 7",
        "shop (3 tracks) other 0 0 3",
    ]


def test_info_as_json(tprof: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["info", str(tprof), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    base = 1_700_000_000 * SECOND
    assert facts["steps"] == [
        {
            "number": 3,
            "phase": "train",
            "start_ns": base,
            "end_ns": base + 10_000,
            **dict.fromkeys(("partial", "unfinished", "incomplete"), False),
        }
    ]
    worker = {"name": "worker", "kind": "thread", "id": 78, "process_id": 77, "events": 1}
    assert facts["tracks"][1] == worker
    assert facts["events_by_kind"] == {"op": 4, "user": 1}


def test_a_damaged_recording_is_shown_with_its_problems(
    tprof: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tprof.write_bytes(tprof.read_bytes()[:-20_000])
    assert cli.main(["info", str(tprof), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["problems"]["file_cut_off"] > 0
    assert cli.main(["report", str(tprof)]) == 0
    assert "incomplete: otel-torchprof info says" in capsys.readouterr().out


def trace_of(folder: Path, *events: dict[str, Any]) -> Path:
    add = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    path = folder / "trace.json"
    path.write_text(json.dumps({"traceEvents": [add, *events]}))
    return path


def test_what_is_odd_in_a_trace_does_not_make_it_incomplete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = trace_of(tmp_path, {"name": "no phase"})
    assert cli.main(["report", str(trace)]) == 0
    said = capsys.readouterr().out
    assert "the file is not quite in order: otel-torchprof info says" in said
    assert "incomplete" not in said
    assert cli.main(["info", str(trace)]) == 0
    said = capsys.readouterr().out
    assert "problems  no_phase 1: events that do not say what they are; left out\n" in said
    assert "notes" not in said
    assert cli.main(["convert", str(trace), str(tmp_path / "spans.jsonl")]) == 0
    said = capsys.readouterr().out
    assert f"  problem in {trace}: no_phase 1: events that do not say what they are; left out\n" in said


def test_what_is_harmless_in_a_trace_is_a_note(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    crossing = {"ph": "X", "cat": "cpu_op", "name": "aten::mul", "pid": 1, "tid": 1, "ts": 2, "dur": 9}
    trace = trace_of(tmp_path, crossing)
    assert cli.main(["report", str(trace)]) == 0
    assert "in order" not in capsys.readouterr().out
    assert cli.main(["info", str(trace)]) == 0
    said = capsys.readouterr().out
    assert "problems  none\n" in said
    assert re.search(
        r"^notes +crossing_slices 1: events that begin within another .* kept as they are", said, re.M
    )
    assert cli.main(["convert", str(trace), str(tmp_path / "spans.jsonl")]) == 0
    said = capsys.readouterr().out
    assert f"  note on {trace}: crossing_slices 1: events that begin within another" in said
    assert "problem" not in said


def test_folded_spans_are_said_to_be_folded(
    tprof: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spans = tmp_path / "spans.jsonl"
    plan = plan_spans(Recording.open(tprof), [capture_root(Recording.open(tprof))], SpanLimits(2))
    (encoded,) = plan.encode(b"")
    spans.write_bytes(request_to_json_line(ExportTraceServiceRequest.FromString(encoded.payload)))
    for command in ("info", "report"):
        assert cli.main([command, str(spans)]) == 0
        assert "4 events are not in the file one by one: they were folded" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["run.pdf", "run", "run.html.gz", "run.json"])
def test_a_page_is_written_as_html_or_not_at_all(
    tprof: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tprof.with_name(name)
    assert cli.main(["report", str(tprof), "-o", str(page)]) == 2
    said = f"{page} is no name for a page: end it in .html; convert writes other formats"
    assert capsys.readouterr() == ("", f"otel-torchprof: {said}\n")
    assert not page.exists()


@pytest.mark.parametrize("name", ["run.html", "run.htm", "RUN.HTML"])
def test_a_page_may_have_any_name_of_html(tprof: Path, name: str) -> None:
    assert cli.main(["report", str(tprof), "-o", str(tprof.with_name(name))]) == 0
    assert tprof.with_name(name).read_bytes().startswith(b"<!doctype html>")


def test_info_reads_every_format(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text(
        '{"traceEvents": [{"ph": "X", "name": "work", "pid": 1, "tid": 2, "ts": 5, "dur": 7}, {}]}'
    )
    assert cli.main(["info", str(trace), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["format"], facts["events"], facts["problems"]) == ("chrome", 1, {"no_phase": 1})


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("\n")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize("command", ["info", "report"])
def test_what_cannot_be_read_is_one_line_and_exit_2(command: str, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("no recording")
    empty = tmp_path / "empty.tprof"
    empty.touch()
    assert str(tmp_path / "gone.tprof") in one_line(run(command, tmp_path / "gone.tprof"))
    assert f"{tmp_path} is a folder: name a file in it" in one_line(run(command, tmp_path))
    several = "one input at a time: a loop of the shell, or convert, takes several"
    assert f"otel-torchprof: {several}; left over: {empty} (" in one_line(run(command, text, empty))
    assert "otel-torchprof: " in one_line(run(command, text))
    assert "otel-torchprof: " in one_line(run(command, empty))


def test_a_file_without_permission_is_one_line_and_exit_2(
    tprof: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["info", str(tprof)]) == 0
    tprof.chmod(0)
    capsys.readouterr()
    with bound_by_permissions():
        assert cli.main(["info", str(tprof)]) == 2
    assert capsys.readouterr() == ("", f"otel-torchprof: {tprof} cannot be read: Permission denied\n")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fly"],
        ["report"],
        ["report", "a", "--sort", "beauty"],
        ["report", "a", "--limit", "-1"],
        ["report", "a", "--step", "first"],
        ["info", "a", "b"],
        ["info", ""],
        ["replay", "", "--endpoint", "http://localhost:4318"],
        ["convert", "", "out.json"],
        ["convert", "a", ""],
        ["replay", "a", "--endpoint", "localhost:4318"],
    ],
)
def test_wrong_use_is_one_line_and_exit_2(arguments: list[str]) -> None:
    assert "--help" in one_line(run(*arguments))


def test_a_file_name_cannot_steer_the_terminal(tmp_path: Path) -> None:
    assert "\\x1b[2J" in one_line(run("info", tmp_path / "\x1b[2J.tprof"))


def test_version_and_help_say_what_this_is() -> None:
    assert run("--version").stdout == f"otel-torchprof {__version__}\n"
    for command in ("info", "report", "doctor", "build"):
        assert command in run("--help").stdout
        assert run(command, "--help").returncode == 0


def test_a_reader_that_goes_away_is_no_traceback(tprof: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [*COMMAND, "report", str(tprof)], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (141, "")


def test_an_interrupt_is_no_traceback() -> None:
    script = (
        "import signal, sys\n"
        "from otel_torchprof.cli import main as cli; from otel_torchprof.cli import info as cli_info\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def load(path):\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "cli_info.load = load\n"
        "sys.exit(cli.main(['info', 'x']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, "")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_modules_are_imported_is_no_traceback(number: signal.Signals, code: int) -> None:
    script = (
        "import signal, sys\n"
        "from otel_torchprof.cli.main import main\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'numpy':\n"
        f"            signal.raise_signal({int(number)})\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_DFL)\n"
        "assert not {'numpy', 'rich'} & set(sys.modules)\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sys.exit(main(['info', 'x']))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


def test_reading_needs_neither_torch_nor_opentelemetry(tprof: Path) -> None:
    script = (
        "import sys, threading\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] in ('torch', 'opentelemetry'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "import otel_torchprof\n"
        "from otel_torchprof.recording import Recording\n"
        "recording = Recording.open(sys.argv[1])\n"
        "assert len(recording) == 5, len(recording)\n"
        "assert recording.tree().self_ns.sum() == 10_500\n"
        "from otel_torchprof.cli.main import main\n"
        "assert main(['report', sys.argv[1]]) == 0\n"
        "assert 'torch' not in sys.modules\n"
        "assert [thread.name for thread in threading.enumerate()] == ['MainThread']\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tprof)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_importing_starts_no_thread_and_imports_no_torch() -> None:
    script = (
        "import sys, os\n"
        "import otel_torchprof\n"
        "print(len(os.listdir('/proc/self/task')), sorted({'torch', 'opentelemetry'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("1 []\n", "")
