"""The source of device work: when it begins, what it refuses, and what it leaves in the metadata."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch
from torch.profiler import ProfilerActivity

from otel_torchprof._native import core
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources import SourceTarget, SourceUnavailable, device, wanted_sources
from otel_torchprof.recorder.sources.device import KINDS, DeviceSource
from otel_torchprof.recorder.sources.group import SourceGroup
from otel_torchprof.recorder.torch_device_profiles import watch_device_profiles

FOUND = {
    "available": True,
    "reason": "",
    "library": "libcupti.so.13",
    "cupti_version": 130_000,
    "driver_version": 13_000,
    "devices": 2,
    "properties": [{"id": 0, "name": "one"}, {"id": 1, "name": "two"}],
    "subscriber": "",
}
WAITING_THREAD = 1234
EVENTS = 4711
INCOMPLETE = "work on devices is incomplete"


@dataclass
class NativeCapture:
    """Stands in for the native half, which needs a driver."""

    refuses: str = ""
    hangs: bool = False
    dropped: dict[str, int] = field(default_factory=dict)
    own_threads: list[int] = field(default_factory=list)
    kinds: tuple[str, ...] = ()
    whole_graphs: bool = False
    calls: list[str] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)

    def start_device(self, cupti_paths: list[str], kinds: list[str], *, graph_level: bool) -> None:
        self.kinds, self.whole_graphs = tuple(kinds), graph_level
        assert cupti_paths
        if self.refuses:
            raise RuntimeError(self.refuses)
        self.calls.append("start")

    def start_device_events(self, events: int) -> None:
        assert events == EVENTS
        self.calls.append("time")

    def stop_device(self) -> bool:
        self.calls.append("stop")
        return not self.hangs

    def set_own_device_thread(self, thread_id: int) -> None:
        self.own_threads.append(thread_id)

    def drops(self) -> dict[str, int]:
        return self.dropped

    def device_counts(self) -> dict[str, int]:
        return {"kernels": 3}

    def add_metadata(self, json_object: bytes) -> None:
        self.metadata.update(json.loads(json_object))


class EventsBridge:
    """A bridge to a torch that has events, or has none, of every kind of device."""

    def __init__(self, events: int) -> None:
        self._events = events

    def device_events(self, kind: str) -> int:
        assert kind in {"cuda", "privateuse1"}
        return self._events


def target_of(capture: NativeCapture, events: int = EVENTS) -> SourceTarget:
    return SourceTarget(cast("Any", capture), 0, cast("Any", EventsBridge(events)))


@pytest.fixture
def native() -> NativeCapture:
    return NativeCapture()


@pytest.fixture(autouse=True)
def probe(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the driver and CUPTI of a machine with two devices say."""
    found: dict[str, Any] = dict(FOUND)
    monkeypatch.setattr(core, "device_probe", lambda _paths: found)

    def wait(_timeout_s: float, on_thread: Callable[[int], None]) -> bool:
        on_thread(WAITING_THREAD)
        return True

    monkeypatch.setattr(device, "wait_for_devices", wait)
    return found


def initialize_cuda(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)


def test_a_required_device_begins_at_once(native: NativeCapture) -> None:
    source = DeviceSource(required=True)
    source.start(target_of(native))
    source.step_begins()
    source.stop()
    source.stop()
    assert (native.calls, source.state) == (["start", "stop"], "on")
    assert native.kinds == KINDS
    assert native.metadata == {
        "device": {
            "cupti_version": 130_000,
            "driver_version": 13_000,
            "devices": 2,
            "properties": FOUND["properties"],
            "complete": True,
            "counts": {"kernels": 3},
        }
    }


def test_it_records_the_kinds_that_are_asked_for(native: NativeCapture) -> None:
    (source,) = wanted_sources(CaptureOptions(device="on", device_kinds=("memcpy", "runtime")))
    source.start(target_of(native))
    source.stop()
    assert native.kinds == ("memcpy", "runtime")
    assert not native.whole_graphs


def test_graphs_are_recorded_as_a_whole_on_request(native: NativeCapture) -> None:
    (source,) = wanted_sources(CaptureOptions(device="on", device_graphs="whole"))
    source.start(target_of(native))
    assert native.whole_graphs


def test_where_cupti_records_nothing_is_timed_by_events(native: NativeCapture) -> None:
    (source,) = wanted_sources(CaptureOptions(device="on", device_events="cuda"))
    source.start(target_of(native))
    source.step_begins()
    source.stop()
    assert (native.calls, source.state) == (["start", "stop"], "on")
    assert "timed_by" not in native.metadata["device"]


def test_where_cupti_cannot_ops_are_timed_by_events_and_that_is_said(
    native: NativeCapture, probe: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    probe.update(available=False, reason="Nsight has CUPTI")
    (source,) = wanted_sources(CaptureOptions(device="on", device_events="cuda"))
    source.start(target_of(native))
    source.step_begins()
    source.stop()
    source.stop()
    assert native.calls == ["time", "stop"]
    assert source.state.startswith("timed by events: Nsight has CUPTI; ")
    assert native.metadata == {"device": {"timed_by": "events", "pieces": 3}}
    assert [line for line in caplog.messages if "timed by CUDA events" in line and "Nsight" in line]


def test_where_there_are_no_events_either_both_causes_are_told(
    native: NativeCapture, probe: dict[str, Any]
) -> None:
    probe.update(available=False, reason="libcuda.so.1 is not there")
    (source,) = wanted_sources(CaptureOptions(device="on", device_events="cuda"))
    with pytest.raises(SourceUnavailable, match=r"libcuda.so.1 is not there.*no events of CUDA devices"):
        source.start(target_of(native, events=0))
    source.stop()
    assert native.calls == []


def test_else_it_begins_with_the_first_step_after_cuda_was_initialized(
    native: NativeCapture, monkeypatch: pytest.MonkeyPatch, probe: dict[str, Any]
) -> None:
    monkeypatch.setattr(core, "device_probe", None)  # loads the driver
    source = DeviceSource(required=False)
    source.start(target_of(native))
    source.step_begins()
    assert (native.calls, source.state) == ([], "waits: the program has not used CUDA")
    initialize_cuda(monkeypatch)
    monkeypatch.setattr(core, "device_probe", lambda _paths: probe)
    source.step_begins()
    source.step_begins()
    assert (native.calls, source.state) == (["start"], "on")
    source.stop()
    assert native.calls == ["start", "stop"]


def test_a_program_without_cuda_leaves_its_state_and_nothing_else(native: NativeCapture) -> None:
    group = SourceGroup([DeviceSource(required=False)])
    group.prepare()
    group.start(target_of(native))
    group.step_begins()
    group.stop()
    assert group.states == {"device": "waits: the program has not used CUDA"}
    assert (native.calls, native.metadata) == ([], {})


@pytest.mark.parametrize("required", [True, False])
def test_without_cupti_the_cause_and_the_way_out_are_told(
    native: NativeCapture, monkeypatch: pytest.MonkeyPatch, probe: dict[str, Any], required: bool
) -> None:
    initialize_cuda(monkeypatch)
    probe.update(available=False, reason="libcupti.so.13 has no cuptiSubscribe; reinstall nvidia-cuda-cupti")
    with pytest.raises(SourceUnavailable) as caught:
        DeviceSource(required=required).start(target_of(native))
    assert str(caught.value) == (
        "libcupti.so.13 has no cuptiSubscribe; reinstall nvidia-cuda-cupti; "
        "OTEL_PYTHON_TORCHPROF_DEVICE=off, or `device` of a profile, leaves it out"
    )


def test_another_subscriber_is_named(native: NativeCapture) -> None:
    native.refuses = "Nsight Systems has CUPTI, which serves one at a time; stop it"
    with pytest.raises(SourceUnavailable, match=r"^Nsight Systems has CUPTI, .*; stop it; OTEL_PYTHON"):
        DeviceSource(required=True).start(target_of(native))


def test_a_late_refusal_is_told_once_and_stays_in_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    native = NativeCapture(refuses="the driver is too old; update it")
    reported = failures.count("device is not recorded")
    source = DeviceSource(required=False)
    source.start(target_of(native))
    initialize_cuda(monkeypatch)
    source.step_begins()
    source.step_begins()
    source.stop()
    assert source.state.startswith("off: the driver is too old; update it; ")
    assert failures.count("device is not recorded") == reported + 1
    assert native.metadata == {}


@pytest.fixture
def profile_of_cuda(monkeypatch: pytest.MonkeyPatch) -> torch.autograd.profiler.profile:
    """One that asks for CUDA, as far as anybody looks: this torch may have none."""
    profile = torch.autograd.profiler.profile()
    monkeypatch.setattr(torch.autograd.profiler, "_prepare_profiler", lambda *_args, **_options: None)
    monkeypatch.setattr(torch.autograd.profiler, "_enable_profiler", lambda *_args, **_options: None)
    profile.kineto_activities = {ProfilerActivity.CPU, ProfilerActivity.CUDA}
    return profile


def test_it_does_not_begin_beside_a_profile_of_torch(
    native: NativeCapture, profile_of_cuda: torch.autograd.profiler.profile
) -> None:
    watch_device_profiles()
    profile_of_cuda._start_trace()
    try:
        with pytest.raises(SourceUnavailable, match="stop that first"):
            DeviceSource(required=True).start(target_of(native))
    finally:
        torch.autograd.profiler._run_on_profiler_stop()
    assert native.calls == []


def test_a_profile_of_torch_meanwhile_makes_it_incomplete(
    native: NativeCapture, profile_of_cuda: torch.autograd.profiler.profile
) -> None:
    reported = failures.count(INCOMPLETE)
    source = DeviceSource(required=True)
    source.start(target_of(native))
    # It begins and ends between two steps.
    profile_of_cuda._prepare_trace()
    profile_of_cuda._start_trace()
    torch.autograd.profiler._run_on_profiler_stop()
    source.step_begins()
    source.step_begins()
    source.stop()
    assert native.metadata["device"]["complete"] is False
    assert failures.count(INCOMPLETE) == reported + 1


def test_a_profile_of_torch_that_warms_up_takes_it_already(
    native: NativeCapture, profile_of_cuda: torch.autograd.profiler.profile
) -> None:
    source = DeviceSource(required=True)
    source.start(target_of(native))
    profile_of_cuda._prepare_trace()
    source.stop()
    assert native.metadata["device"]["complete"] is False


def test_a_profile_of_torch_before_it_changes_nothing(
    native: NativeCapture, profile_of_cuda: torch.autograd.profiler.profile
) -> None:
    DeviceSource(required=True).start(target_of(native))  # from now on they are watched
    profile_of_cuda._start_trace()
    torch.autograd.profiler._run_on_profiler_stop()
    source = DeviceSource(required=True)
    source.start(target_of(native))
    source.stop()
    assert native.metadata["device"]["complete"] is True


def test_a_profile_of_torch_without_devices_is_no_reason(native: NativeCapture) -> None:
    source = DeviceSource(required=True)
    source.start(target_of(native))
    with torch.profiler.profile(activities=[ProfilerActivity.CPU]):
        source.step_begins()
        DeviceSource(required=True).start(target_of(NativeCapture()))
    source.stop()
    assert native.metadata["device"]["complete"] is True


def test_a_capture_that_cupti_does_not_end_is_incomplete() -> None:
    native = NativeCapture(hangs=True)
    reported = failures.count(INCOMPLETE)
    source = DeviceSource(required=True)
    source.start(target_of(native))
    source.stop()
    assert native.metadata["device"]["complete"] is False
    assert failures.count(INCOMPLETE) == reported + 1


def test_a_capture_of_which_records_were_lost_is_incomplete() -> None:
    native = NativeCapture(dropped={"device_dropped": 1})
    source = DeviceSource(required=True)
    source.start(target_of(native))
    source.stop()
    assert native.metadata["device"]["complete"] is False


def test_the_thread_that_waits_is_not_the_programs(native: NativeCapture) -> None:
    source = DeviceSource(required=True)
    source.start(target_of(native))
    source.stop()
    assert native.own_threads == [WAITING_THREAD]


def test_work_that_does_not_end_in_time_makes_it_incomplete(
    native: NativeCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "wait_for_devices", lambda _timeout_s, _on_thread: False)
    source = DeviceSource(required=True)
    source.start(target_of(native))
    source.stop()
    assert native.calls == ["start", "stop"]
    assert native.metadata["device"]["complete"] is False


def test_rocm_is_sent_to_torchs_profiler(native: NativeCapture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    with pytest.raises(SourceUnavailable, match=r'profile\(recorder="torch"\) records its devices'):
        DeviceSource(required=True).start(target_of(native))


@pytest.mark.parametrize(
    ("mode", "cuda", "wanted"),
    [
        ("auto", None, []),
        ("auto", "13.0", ["device"]),
        ("off", "13.0", []),
        ("on", None, ["device"]),
        ("on", "13.0", ["device"]),
    ],
)
def test_it_is_wanted_where_torch_knows_cuda_or_when_asked_for(
    mode: Any, cuda: str | None, wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "cuda", cuda)
    assert [source.name for source in wanted_sources(CaptureOptions(device=mode))] == wanted


def test_a_capture_goes_on_without_the_device_and_says_why(
    monkeypatch: pytest.MonkeyPatch, probe: dict[str, Any]
) -> None:
    probe.update(available=False, reason="libcuda.so.1 is not there; install NVIDIA's driver", devices=-1)
    capture = Capture(options=CaptureOptions(device="on"))
    capture.start()
    torch.ones(2).add(1)
    recording = capture.stop()
    state = recording.metadata["sources"]["device"]
    assert state.startswith("off: libcuda.so.1 is not there; install NVIDIA's driver; ")
    assert any(recording.event_name(row) == "aten::add" for row in range(len(recording)))


def test_what_a_source_came_to_is_in_the_saved_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    capture = Capture(options=CaptureOptions(device="auto"))
    capture.start()
    recording = capture.stop()
    assert recording.metadata["sources"] == {"device": "waits: the program has not used CUDA"}
