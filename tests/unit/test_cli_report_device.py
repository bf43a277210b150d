"""`report` on devices: how busy, with which kernels, and where the program waited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_torchprof.cli.main import main
from otel_torchprof.recording import EventKind, RecordingBuilder, TrackKind
from tests.support.device_programs import DeviceProgram
from tests.support.terminals import terminal_lines


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    program = DeviceProgram()
    with program.op("aten::mm"):
        program.kernel("void gemm<float, 128>(float*)", us=70)
        program.kernel("void gemm<float, 64>(float*)", us=20)
    with program.op("aten::item"):
        program.copy("Memcpy DtoH (Device -> Pinned)", 4096, us=10)
        program.runtime("cudaStreamSynchronize")
    program.finish().save(tmp_path / "run.tprof")
    return tmp_path / "run.tprof"


def test_a_terminal_shows_each_device_its_kernels_and_the_waits(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["report", str(recording)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert (
        "device 0: 100.0% busy (kernels 90.0%, copies 10.0%), 0.0% idle, 0.0% waiting for launches "
        "(0 of 2 kernels launched when the device had run dry) of 100.000 us"
    ) in lines
    start = lines.index("on devices calls total mean longest share")
    assert lines[start : start + 4] == [
        "on devices calls total mean longest share",
        "gemm 2 90.000 us 45.000 us 70.000 us 90.0%",
        "Memcpy DtoH (Device -> Pinned) 1 10.000 us 10.000 us 10.000 us 10.0%",
        "kernels, copies and fills: 3; share is of their 100.000 us",
    ]
    (wait,) = [line for line in lines if line.startswith("cudaStreamSynchronize aten::item 1 ")]
    assert wait


def test_what_ran_on_threads_stands_alone_with_a_share_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = RecordingBuilder()
    thread = builder.add_track("main", thread_id=1)
    stream = builder.add_track("stream 7", TrackKind.STREAM, device=0)
    builder.add_event("aten::mm", 0, 30_000, track=thread)
    builder.add_event("ProfilerStep#1", 0, 40_000, track=thread, kind=EventKind.USER)
    builder.add_event("ProfilerStep#1", 0, 90_000, track=stream, kind=EventKind.ANNOTATION)
    builder.add_event("void gemm<float>(float*)", 10_000, 90_000, track=stream, kind=EventKind.KERNEL)
    builder.finish().save(tmp_path / "run.tprof")
    assert main(["report", str(tmp_path / "run.tprof")]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:8] == [
        "on threads calls total self mean share",
        "aten::mm 1 30.000 us 30.000 us 30.000 us 75.0%",
        "ProfilerStep 1 40.000 us 10.000 us 40.000 us 25.0%",
        "2 events on threads; share is of their 40.000 us of self time",
        "",
        "on devices calls total mean longest share",
        "gemm 1 80.000 us 80.000 us 80.000 us 100.0%",
        "kernels, copies and fills: 1; share is of their 80.000 us",
    ]
    assert main(["report", str(tmp_path / "run.tprof"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    shares = {(row["name"], row["kind"]): row["self_share"] for row in rows}
    assert shares["ProfilerStep", "user"] == 0.25
    assert shares["ProfilerStep", "annotation"] == shares["void gemm<float>(float*)", "kernel"] == 1.0


def test_work_of_chosen_steps_is_what_begins_in_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = DeviceProgram()
    for name in ("first", "second"):
        with program.step(), program.op("aten::mm"):
            program.kernel(name, us=5)
            program.runtime("cudaDeviceSynchronize")
    program.finish().save(tmp_path / "run.tprof")
    assert main(["report", str(tmp_path / "run.tprof"), "--step", "1"]) == 0
    said = capsys.readouterr().out
    table = said[said.index("on devices") : said.index("kernels, copies and fills")]
    assert "second" in table
    assert "first" not in table
    assert "kernels, copies and fills: 1; share is of their 5.000 us" in said


@pytest.mark.parametrize("width", [40, 80, 100])
def test_a_terminal_has_room_for_every_line(
    recording: Path, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = terminal_lines(monkeypatch, width, ["report", str(recording)])
    assert max(map(len, lines)) <= width
    assert any(line.startswith("cudaStreamSynchronize") for line in lines)


@pytest.mark.parametrize(("width", "has_share"), [(32, False), (100, True)])
def test_what_share_is_of_is_said_where_there_is_one(
    recording: Path, width: int, has_share: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = terminal_lines(monkeypatch, width, ["report", str(recording)])
    heading = next(line for line in lines if line.startswith("on threads"))
    # A narrow terminal wraps what is below a table.
    below = " ".join(lines[next(place for place, line in enumerate(lines) if "events on thre" in line) :])
    said = below[: below.index(" us")]
    assert ("share" in heading.split(), "share is of their" in said) == (has_share, has_share)


def test_json_has_the_same_in_ns(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(recording), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (device,) = document["devices"]
    assert (device["number"], device["busy_ns"], device["idle_ns"], device["copies"]) == (0, 100_000, 0, 1)
    assert document["kernels"] == [
        {"name": "gemm", "calls": 2, "total_ns": 90_000, "longest_ns": 70_000},
    ]
    (wait,) = document["blocking_calls"]
    assert (wait["call"], wait["caller"], wait["calls"]) == ("cudaStreamSynchronize", "aten::item", 1)
    assert wait["total_ns"] == wait["longest_ns"] > 80_000


def test_a_recording_without_devices_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = DeviceProgram()
    program.call("aten::add")
    program.finish().save(tmp_path / "run.tprof")
    assert main(["report", str(tmp_path / "run.tprof"), "--json"]) == 0
    assert not {"devices", "kernels", "blocking_calls"} & json.loads(capsys.readouterr().out).keys()


def test_names_in_a_pipe_lose_their_middle_and_json_has_them_whole(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"Cijk_Alik_{'SB_MT64x16x32_' * 17}WGM1"
    program = DeviceProgram()
    with program.op("aten::mm"):
        program.kernel(name, us=70)
    program.finish().save(tmp_path / "run.tprof")
    run = str(tmp_path / "run.tprof")
    assert len(name) == 252
    assert main(["report", run]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Cijk_Alik_")]
    shown = line.split(" ")[0]
    assert len(shown) == 100
    assert shown.startswith(name[:50])
    assert shown.endswith(name[-49:])
    assert main(["report", run, "--json"]) == 0
    assert name in [kernel["name"] for kernel in json.loads(capsys.readouterr().out)["kernels"]]
    # A terminal has as much of it as there is room for.
    assert any(line.startswith(name) for line in terminal_lines(monkeypatch, 320, ["report", run]))
