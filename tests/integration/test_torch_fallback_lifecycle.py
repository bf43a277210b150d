"""Starting and stopping through torch.profiler, which has one slot a process and crashes when it loses it."""

from __future__ import annotations

import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from otel_torchprof import Recording, profile, torch_fallback
from otel_torchprof.recorder.step_details import StepDetails
from otel_torchprof.recorder.torch_profiler import TorchProfilerError, TraceLost
from otel_torchprof.recording import SpanContext, StepFlags
from otel_torchprof.torch_fallback import TorchCapture


def op_names(recording: Recording) -> set[str]:
    ops = {"aten::cos", "aten::sin", "aten::tan"}
    return ops & {recording.event_name(row) for row in range(len(recording))}


def slot_is_free() -> bool:
    """Whether torch.profiler records what it is asked to, and nothing else holds it."""
    with torch.profiler.profile() as prof:
        torch.ones(2).cos()
    return "aten::cos" in {event.name for event in prof.events()}


@pytest.fixture(autouse=True)
def _slot_stays_free(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    temporary = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    yield
    monkeypatch.undo()
    assert slot_is_free()
    assert list(temporary.glob("otel-torchprof-*")) == []


def test_a_torch_profiler_of_the_program_goes_on_undisturbed() -> None:
    with torch.profiler.profile() as theirs:
        torch.ones(2).cos()
        with pytest.raises(TorchProfilerError, match=r"torch\.profiler records already"):
            profile(recorder="torch").start()
        torch.ones(2).sin()
    assert {"aten::cos", "aten::sin"} <= {event.name for event in theirs.events()}


def test_a_torch_profiler_of_another_thread_goes_on_undisturbed() -> None:
    started, finish = threading.Event(), threading.Event()
    names: set[str] = set()

    def record() -> None:
        with torch.profiler.profile() as theirs:
            started.set()
            finish.wait(60)
            torch.ones(2).sin()
        names.update(event.name for event in theirs.events())

    thread = threading.Thread(target=record)
    thread.start()
    started.wait(60)
    with pytest.raises(TorchProfilerError, match=r"torch\.profiler records already"):
        profile(recorder="torch").start()
    finish.set()
    thread.join()
    assert "aten::sin" in names


@pytest.mark.parametrize("profile_memory", [False, True])
def test_one_started_inside_takes_the_recording_and_that_is_an_error(profile_memory: bool) -> None:
    prof = profile(recorder="torch", profile_memory=profile_memory)
    prof.start()
    with torch.profiler.profile():
        torch.ones(2).cos()
    for _ in range(2):
        with pytest.raises(TraceLost, match="use one at a time"):
            prof.stop()
    with pytest.raises(RuntimeError, match="there is no recording yet"):
        _ = prof.recording
    with profile(recorder="torch") as after:
        torch.ones(2).sin()
    assert op_names(after.recording) == {"aten::sin"}


def test_the_second_of_two_is_refused_and_the_first_goes_on() -> None:
    with profile(recorder="torch") as prof:
        with pytest.raises(TorchProfilerError, match="stop that first"):
            profile(recorder="torch").start()
        torch.ones(2).cos()
    assert op_names(prof.recording) == {"aten::cos"}


def test_our_own_recorder_records_at_the_same_time() -> None:
    with profile() as outer, profile(recorder="torch") as inner:
        torch.ones(2).cos()
    assert op_names(outer.recording) == op_names(inner.recording) == {"aten::cos"}


def test_many_threads_start_at_once_and_one_records() -> None:
    ready = threading.Barrier(4)
    profs = [profile(recorder="torch") for _ in range(4)]
    started: list[profile] = []

    def start(prof: profile) -> None:
        ready.wait()
        try:
            prof.start()
        except TorchProfilerError:
            return
        started.append(prof)

    threads = [threading.Thread(target=start, args=[prof]) for prof in profs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (prof,) = started
    torch.ones(2).cos()
    prof.stop()
    assert op_names(prof.recording) == {"aten::cos"}


def test_an_exception_leaves_the_recording() -> None:
    prof = profile(recorder="torch")

    def fail() -> None:
        with prof:
            torch.ones(2).cos()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert op_names(prof.recording) == {"aten::cos"}


def test_wrong_use_is_as_with_our_own_recorder() -> None:
    prof = profile(recorder="torch")
    with pytest.raises(RuntimeError, match=r"the profile does not record: call start\(\)"):
        prof.stop()
    with prof, pytest.raises(RuntimeError, match="a profile records once: make another"):
        prof.start()
    recording = prof.recording
    prof.stop()
    prof.step()
    assert prof.recording is recording


def test_another_thread_may_stop_it() -> None:
    prof = profile(recorder="torch")
    prof.start()
    torch.ones(2).cos()
    thread = threading.Thread(target=prof.stop)
    thread.start()
    thread.join()
    assert op_names(prof.recording) == {"aten::cos"}


def test_with_memory_only_the_thread_that_started_stops_it() -> None:
    prof = profile(recorder="torch", profile_memory=True)
    prof.start()
    refused: list[str] = []

    def stop() -> None:
        try:
            prof.stop()
        except TorchProfilerError as error:
            refused.append(str(error))

    thread = threading.Thread(target=stop)
    thread.start()
    thread.join()
    assert refused == [
        "torch.profiler stops only on the thread that started it when it records memory: stop there"
    ]
    torch.ones(2).cos()
    prof.stop()
    assert op_names(prof.recording) == {"aten::cos"}


def test_a_capture_keeps_the_contexts_of_its_steps() -> None:
    context, link = bytes(range(1, 25)), bytes(range(101, 125))
    capture = TorchCapture()
    capture.start()
    capture.begin_step(7, StepDetails(1, StepFlags.HAS_NUMBER, context, context_trace_flags=1, links=link))
    capture.end_step()
    torch.ones(2).cos()
    (step,) = capture.stop().steps
    assert (step.number, step.phase, step.flags) == (7, 1, StepFlags.HAS_NUMBER)
    assert step.context == SpanContext(context[:16], context[16:])
    assert step.context_trace_flags == 1
    assert step.links == (SpanContext(link[:16], link[16:]),)
    assert step.end_ns < capture.stop().end_ns


def test_a_file_is_saved_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "run.tprof"
    with profile(recorder="torch", path=path) as prof:
        torch.ones(2).cos()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    opened = Recording.open(path)
    assert len(opened) == len(prof.recording)
    assert [step.number for step in opened.steps] == [0]


@pytest.mark.parametrize(
    ("name", "error"),
    [("missing/run.tprof", FileNotFoundError), ("folder", IsADirectoryError)],
)
def test_a_path_that_cannot_be_written_is_said_at_the_start(
    tmp_path: Path, name: str, error: type[OSError]
) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(error, match=name):
        profile(recorder="torch", path=tmp_path / name).start()


def test_the_trace_is_out_of_reach_of_others_and_goes_also_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[int, bool]] = []

    def fail(path: Path, _session: object) -> Recording:
        seen.append((stat.S_IMODE(path.parent.stat().st_mode), path.is_file()))
        raise OSError("read error")

    monkeypatch.setattr(torch_fallback, "read_trace", fail)
    prof = profile(recorder="torch")
    with pytest.raises(OSError, match="read error"), prof:
        torch.ones(2).cos()
    assert seen == [(0o700, True)]
    with pytest.raises(TraceLost, match="could not be read back: OSError: read error"):
        prof.stop()  # Kineto writes a trace only once


def test_a_trace_that_was_not_written_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.profiler._KinetoProfile, "export_chrome_trace", lambda *_arguments: None)
    with pytest.raises(OSError, match="is there space left"), profile(recorder="torch"):
        torch.ones(2).cos()


def test_a_start_that_fails_leaves_the_slot_free(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("no device")

    monkeypatch.setattr(torch.autograd.profiler, "_enable_profiler", fail)
    with pytest.raises(RuntimeError, match="no device"):
        profile(recorder="torch").start()
    assert not torch.autograd.profiler._is_profiler_enabled


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, timeout=120, capture_output=True, text=True
    )
    return done.stdout


def test_one_that_is_dropped_gives_the_slot_back() -> None:
    prof = profile(recorder="torch")
    prof.start()
    del prof
    assert slot_is_free()


def test_one_that_is_never_stopped_is_saved_at_exit(tmp_path: Path) -> None:
    code = """
import sys, torch
from otel_torchprof import profile
prof = profile(recorder="torch", path=sys.argv[1])
prof.start()
torch.ones(2).cos()
"""
    run(code, str(tmp_path / "run.tprof"))
    assert op_names(Recording.open(tmp_path / "run.tprof")) == {"aten::cos"}


def test_a_forked_child_has_no_part_in_it() -> None:
    code = """
import os, torch
from otel_torchprof import profile
prof = profile(recorder="torch")
prof.start()
torch.ones(2).cos()
child = os.fork()
if child == 0:
    prof.step()
    prof.stop()
    os._exit(len(prof.recording))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
torch.ones(2).sin()
prof.stop()
names = {prof.recording.event_name(row) for row in range(len(prof.recording))}
print(sorted(names & {"aten::cos", "aten::sin"}), len(prof.recording.steps))
"""
    assert run(code) == "['aten::cos', 'aten::sin'] 1\n"
