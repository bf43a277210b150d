"""`profile` through torch.profiler: the same recordings as of our own recorder."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from otel_torchprof import Recording, profile, record_function
from otel_torchprof.analysis.averages import averages
from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.profiler import Recorder
from otel_torchprof.profiling import activities as profiling_activities
from otel_torchprof.profiling import trace_profile
from otel_torchprof.recorder import capture
from otel_torchprof.recorder.bridge import BridgeUnavailable
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recording import EventKind, StepFlags, TensorInput
from otel_torchprof.run_identity import RunIdentity
from otel_torchprof.spans import plan_spans, roots_from_steps


def train(prof: profile, on_a_thread: Callable[[Callable[[], object]], None]) -> None:
    """Two iterations with forward, backward, optimizer and work on other threads."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        with record_function("forward"):
            loss = model(torch.ones(5, 8)).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        on_a_thread(lambda: torch.ones(2, 3).cos())
        prof.step()


def in_new_thread(work: Callable[[], object]) -> None:
    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()


Nested = tuple[str, str, EventKind, str | None]


def nested_names(recording: Recording) -> list[Nested]:
    """Track, name, kind and name of the parent of each event, in order of rows."""
    events, parents = recording.events, recording.tree().parent.tolist()
    return [
        (
            recording.tracks[events.track[row]].name,
            recording.event_name(row),
            EventKind(events.kind[row]),
            recording.event_name(parent) if parent >= 0 else None,
        )
        for row, parent in enumerate(parents)
    ]


def tensor_shapes(recording: Recording) -> Counter[tuple[str, int, str, tuple[int, ...]]]:
    return Counter(
        (recording.event_name(row), place, value.dtype, value.sizes)
        for row in range(len(recording))
        for place, value in enumerate(recording.inputs(row) or ())
        if isinstance(value, TensorInput)
    )


def names_of(recording: Recording) -> Counter[str]:
    return Counter(recording.event_name(row) for row in range(len(recording)))


class EarlyThread:
    """A thread that runs before and after a recording, and works when it is asked to."""

    def __init__(self) -> None:
        self._work: Callable[[], object] | None = None
        self._asked = threading.Semaphore(0)
        self._done = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, name="early")

    def __enter__(self) -> EarlyThread:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ask(None)
        self._thread.join()

    def __call__(self, work: Callable[[], object]) -> None:
        self._ask(work)
        self._done.acquire()

    def _ask(self, work: Callable[[], object] | None) -> None:
        self._work = work
        self._asked.release()

    def _run(self) -> None:
        while self._asked.acquire() and self._work is not None:
            self._work()
            self._done.release()


def test_a_loop_is_recorded_as_by_our_own_recorder() -> None:
    recordings: dict[Recorder, Recording] = {}
    with EarlyThread() as early:
        with profile() as warm_up:  # lazy initialisation runs ops that come only once
            train(warm_up, early)
        for recorder in ("native", "torch"):
            with profile(recorder=recorder, record_shapes=True) as prof:
                train(prof, early)
            recordings[recorder] = prof.recording
            assert prof.step_num == 2
    native, through_torch = recordings["native"], recordings["torch"]
    assert nested_names(through_torch) == nested_names(native)
    assert tensor_shapes(through_torch) == tensor_shapes(native)
    assert {track.name for track in through_torch.tracks} == {"MainThread", "early"}
    for recording in recordings.values():
        flags = [(step.number, step.flags) for step in recording.steps]
        assert flags == [
            (0, StepFlags.HAS_NUMBER | StepFlags.PARTIAL),
            (1, StepFlags.HAS_NUMBER),
            (2, StepFlags.HAS_NUMBER | StepFlags.PARTIAL | StepFlags.UNFINISHED),
        ]
        assert all(a.end_ns == b.start_ns for a, b in zip(recording.steps, recording.steps[1:], strict=False))
    assert through_torch.process_instance == native.process_instance
    assert through_torch.metadata["run_id"] == native.metadata["run_id"]
    assert through_torch.metadata["options"] == native.metadata["options"]
    assert through_torch.metadata["recorder"] == "torch.profiler"


def test_events_lie_in_their_steps() -> None:
    with profile(recorder="torch") as prof:
        torch.ones(2).cos()
        prof.step()
        torch.ones(2).sin()
        prof.step()
        torch.ones(2).tan()
    recording = prof.recording
    starts = {
        recording.event_name(row): start for row, start in enumerate(recording.events.start_ns.tolist())
    }
    in_step = [
        [
            name
            for name in ("aten::cos", "aten::sin", "aten::tan")
            if step.start_ns <= starts[name] < step.end_ns
        ]
        for step in recording.steps
    ]
    assert in_step == [["aten::cos"], ["aten::sin"], ["aten::tan"]]
    assert recording.start_ns <= recording.steps[0].start_ns
    assert recording.steps[-1].end_ns <= recording.end_ns


def test_steps_may_come_from_any_thread() -> None:
    with profile(recorder="torch") as prof:
        in_new_thread(prof.step)
    assert [step.number for step in prof.recording.steps] == [0, 1]
    tracks = prof.recording.tracks
    assert [tracks[step.track].name for step in prof.recording.steps] == ["MainThread", "worker"]


def test_shapes_on_request() -> None:
    with profile(recorder="torch") as prof:
        torch.ones(2, 3).cos()
    assert not tensor_shapes(prof.recording)


def test_user_scopes_keep_their_names() -> None:
    names = ['a"b', "with space", "x" * 5000]
    with profile(recorder="torch") as prof:
        for name in names:
            with record_function(name):
                torch.ones(2)
    found = names_of(prof.recording)
    assert [found[name] for name in names] == [1, 1, 1]


def test_names_that_kineto_does_not_write_are_as_it_writes_them() -> None:
    with profile(recorder="torch") as prof:
        for name in ("é✓", "tab\t", "back\\slash"):
            with record_function(name):
                torch.ones(2)
    found = names_of(prof.recording)
    assert (found["unknown"], found["back/slash"]) == (2, 1)


def test_the_fallback_records_where_there_is_no_bridge(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_bridge() -> None:
        raise BridgeUnavailable("no compiler: install one")

    monkeypatch.setattr(capture, "load_bridge", no_bridge)
    monkeypatch.setattr(failures, "_counts", Counter())
    with pytest.raises(BridgeUnavailable, match="install one"), profile():
        raise AssertionError("it records nothing")
    for _ in range(2):
        with profile(fallback="torch") as prof:
            torch.ones(2).cos()
        assert prof.recorder == "torch"
        assert names_of(prof.recording)["aten::cos"] == 1
    (warning,) = caplog.messages
    assert warning == (
        "otel-torchprof: torch.profiler records instead of the recorder: "
        "no compiler: install one (logged once)"
    )


def test_the_fallback_is_not_used_where_there_is_a_bridge() -> None:
    with profile(fallback="torch") as prof:
        torch.ones(2).cos()
    assert prof.recorder == "native"
    assert "recorder" not in prof.recording.metadata


@pytest.mark.parametrize("options", [{"recorder": "kineto"}, {"fallback": "native"}])
def test_an_unknown_recorder_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match='recorder must be "native" or "torch"'):
        profile(**options)  # type: ignore[arg-type]


def test_what_does_not_fit_is_dropped_from_the_end_and_counted() -> None:
    with profile(recorder="torch", buffer_size_bytes=4 * 48) as prof:
        for _ in range(10):
            torch.ones(2)
    assert names_of(prof.recording) == {"aten::ones": 2, "aten::empty": 1, "aten::fill_": 1}
    assert prof.recording.drops == {"byte_cap": 26}


def test_memory_is_recorded_for_the_thread_that_starts() -> None:
    with profile(recorder="torch", profile_memory=True) as prof:
        torch.ones(1000)
        in_new_thread(prof.step)
        in_new_thread(lambda: torch.ones(3).sin())
    recording = prof.recording
    sizes = recording.memory["size_bytes"].tolist()
    assert 4000 in sizes
    assert -4000 in sizes
    assert names_of(recording)["aten::sin"] == 0
    # The step that torch.profiler did not see has its time from the wall clock.
    first, second = recording.steps
    assert second.number == 1
    assert first.start_ns < second.start_ns < second.end_ns
    assert recording.tracks[second.track].name == "worker"


def test_modules_without_the_calls_around_them() -> None:
    with profile(recorder="torch", with_modules=True) as prof:
        torch.nn.Sequential(torch.nn.ReLU())(torch.ones(2))
    kinds = Counter(EventKind(kind) for kind in prof.recording.events.kind.tolist())
    assert kinds[EventKind.MODULE] == 2
    assert kinds[EventKind.PYTHON] == kinds[EventKind.PYTHON_C] == 0


def test_python_calls_but_not_our_own() -> None:
    def compute() -> None:
        torch.ones(2)

    with profile(recorder="torch", with_stack=True) as prof:
        compute()
        prof.step()
    recording = prof.recording
    calls = [
        (recording.event_name(row), recording.overload_name(int(recording.events.name[row])))
        for row, kind in enumerate(recording.events.kind.tolist())
        if kind in (EventKind.PYTHON, EventKind.PYTHON_C)
    ]
    assert "compute" in [name for name, _place in calls]
    assert [place for _name, place in calls if "torch_profiler" in place or "otel_torchprof" in place] == []


def test_counters_are_said_to_be_missing(caplog: pytest.LogCaptureFixture) -> None:
    with profile(recorder="torch", counters=["task-clock"]):
        torch.ones(2)
    assert caplog.messages == ["otel-torchprof: counters are not recorded: torch.profiler knows none"]


def test_averages_exports_and_spans_take_the_recording(tmp_path: Path) -> None:
    with profile(recorder="torch") as prof:
        torch.ones(2).cos()
    recording = prof.recording
    (average,) = [row for row in averages(recording).rows if row.name == "aten::cos"]
    assert average.calls == 1
    export(recording, tmp_path / "trace.json")
    again, report = load(tmp_path / "trace.json")
    assert not report.problems
    assert names_of(again)["aten::cos"] == 1
    roots = roots_from_steps(recording, RunIdentity("run"))
    assert "aten::cos" in {span.name for span in plan_spans(recording, roots).spans()}


class OnAnotherDevice:
    """As on a machine whose torch supports a device that CUDA does not drive."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
        self.activities = [
            torch.profiler.ProfilerActivity.CPU,
            getattr(torch.profiler.ProfilerActivity, name),
        ]
        monkeypatch.setattr(profiling_activities, "supported_activities", lambda: set(self.activities))
        monkeypatch.setattr(trace_profile, "supported_activities", lambda: set(self.activities))


@pytest.mark.parametrize("name", ["XPU", "MTIA", "HPU", "PrivateUse1"])
@pytest.mark.parametrize("asked", [True, False])
def test_devices_that_only_torch_sees_are_recorded_by_it(
    name: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = OnAnotherDevice(monkeypatch, name)
    reported = failures.count("torch.profiler records, for the devices")
    with profile(activities=device.activities if asked else None) as prof:
        torch.ones(2).cos()
    assert prof.recorder == "torch"
    assert names_of(prof.recording)["aten::cos"] == 1
    assert failures.count("torch.profiler records, for the devices") == reported + 1


def test_without_their_activity_and_where_it_is_asked_for_our_recorder_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = OnAnotherDevice(monkeypatch, "XPU")
    with profile(activities=device.activities[:1]) as prof:
        torch.ones(2).cos()
    assert prof.recorder == "native"
    with profile(activities=device.activities, recorder="native") as prof:
        torch.ones(2).cos()
    assert prof.recorder == "native"
    assert "sources" not in prof.recording.metadata


@pytest.mark.parametrize(
    ("asked", "options", "mode"),
    [
        (["CPU", "CUDA"], {}, "on"),
        (None, {}, "on"),
        (["CPU"], {}, "off"),
        (["CPU"], {"device": "on"}, "on"),
        (["CPU", "CUDA"], {"device": "off"}, "off"),
    ],
)
def test_the_activities_say_whether_cuda_devices_are_recorded(
    asked: list[str] | None, options: dict[str, Any], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = OnAnotherDevice(monkeypatch, "CUDA")
    wanted = [one for one in device.activities if one.name in asked] if asked else None
    with profile(activities=wanted, **options) as prof:
        pass
    assert prof.recorder == "native"
    assert prof.recording.metadata["options"]["device"] == mode


def test_on_rocm_torch_records_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    OnAnotherDevice(monkeypatch, "CUDA")
    with profile() as prof:
        pass
    assert prof.recorder == "torch"


def test_a_device_mode_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match='device must be "auto", "off" or "on", not \'cuda\''):
        profile(device="cuda")  # type: ignore[arg-type]
