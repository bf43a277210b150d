"""Names in the dictionaries of activities: what they make a profile collect from devices, and show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from torch.profiler import ProfilerActivity

from otel_torchprof.exporters import chrome
from otel_torchprof.profiler import profile
from otel_torchprof.profiling import trace_profile
from otel_torchprof.profiling.activity_filters import ActivityFilter
from otel_torchprof.profiling.event_rows import ViewOptions
from otel_torchprof.profiling.recorders import RecorderChoice
from otel_torchprof.profiling.results import Results
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import EventKind, LinkType, Recording, RecordingBuilder, TrackKind

CPU, CUDA = ProfilerActivity.CPU, ProfilerActivity.CUDA
CALLS = ("runtime", "driver")


@pytest.fixture
def started_with(monkeypatch: pytest.MonkeyPatch) -> list[CaptureOptions]:
    """The options of captures that are not started, on a machine with CUDA."""
    options_of_all: list[CaptureOptions] = []

    def start(self: RecorderChoice, path: Any, options: CaptureOptions) -> Any:
        options_of_all.append(options)
        raise OSError("not started")

    monkeypatch.setattr(RecorderChoice, "start", start)
    monkeypatch.setattr(trace_profile, "warn_of_missing", lambda _activities: None)
    monkeypatch.setattr(trace_profile, "supported_activities", lambda: {CPU, CUDA})
    monkeypatch.setattr(
        trace_profile, "device_mode", lambda activities: "on" if CUDA in activities else "off"
    )
    return options_of_all


@pytest.mark.parametrize(
    ("activities", "device", "kinds"),
    [
        ([CPU, CUDA], "on", None),
        ([CPU], "off", None),
        # What calls the runtime and the driver are of the CPU's activities too.
        ([CPU, {CUDA: ["GPU_MEMCPY"]}], "on", ("memcpy", *CALLS)),
        ([CPU, {CUDA: []}], "on", CALLS),
        ([{CPU: ["CPU_OP"], CUDA: ["CONCURRENT_KERNEL", "CUDA_RUNTIME"]}], "on", ("kernel", "runtime")),
        ([{CPU: ["CPU_OP"]}, {CUDA: ["GPU_MEMSET", "OVERHEAD"]}], "on", ("memset", "overhead")),
        ([{CPU: ["CPU_OP"], CUDA: []}], "off", ()),
        ([{CPU: ["CPU_OP"]}, CUDA], "on", None),
        ([{CUDA: ["GPU_MEMCPY", "CUDA_DRIVER"]}], "on", ("memcpy", "driver")),
    ],
)
def test_names_choose_what_is_collected_from_devices(
    started_with: list[CaptureOptions], activities: list[Any], device: str, kinds: tuple[str, ...] | None
) -> None:
    with pytest.raises(OSError, match="not started"):
        profile(activities=activities).start()
    (options,) = started_with
    assert (options.device, options.device_kinds) == (device, kinds)


def test_a_name_that_an_activity_has_not_is_an_error_of_the_start(started_with: list[CaptureOptions]) -> None:
    prof = profile(activities=[CPU, {CUDA: ["CONCURRENT_KERNEL", "kernel"]}])
    with pytest.raises(RuntimeError, match="type name: 'kernel': CUDA has CONCURRENT_KERNEL, CUDA_DRIVER, "):
        prof.start()
    assert started_with == []


def everything() -> Recording:
    """An event of each kind, called by its name, with a step, a launch and an allocation."""
    builder = RecordingBuilder()
    thread = builder.add_track("main", thread_id=1)
    stream = builder.add_track("stream 7", TrackKind.STREAM, device=0)
    on_stream = {EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.ANNOTATION, EventKind.SYNC}
    rows = {
        kind: builder.add_event(
            kind.name, place * 10, place * 10 + 5, track=stream if kind in on_stream else thread, kind=kind
        )
        for place, kind in enumerate(EventKind)
    }
    builder.add_link(rows[EventKind.RUNTIME], rows[EventKind.KERNEL], LinkType.LAUNCH)
    builder.add_step(0, 200, 3, track=thread)
    return builder.finish()


def shown(activities: set[str], names: dict[str, set[str]], tmp_path: Path) -> tuple[set[str], set[str], int]:
    """Categories that a trace shows, those of events, and how many ends of flows the trace has."""
    wanted = ActivityFilter(activities, names)
    options = ViewOptions(
        with_steps=True,
        use_device="cuda",
        left_out=wanted.left_out_of_events,
        left_out_of_traces=wanted.left_out_of_traces,
    )
    results = Results([everything()], options)
    results.export_chrome_trace(tmp_path / "trace.json")
    results.kineto_results.save(tmp_path / "same.json")
    lines = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert json.loads((tmp_path / "same.json").read_text())["traceEvents"] == lines
    slices = {line["cat"] for line in lines if line["ph"] in "Xi"} - {"Trace", "other"}
    assert {one.type() for one in results.kineto_results.trace_activities()} == slices
    flows = sum(line["ph"] in "sf" for line in lines)
    return slices, {str(event.activity_type) for event in results.function_events}, flows


ON_THREADS = {"cpu_op", "user_annotation", "python_function"}
ON_DEVICES = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "overhead"}
OF_CALLS = {"cuda_runtime", "cuda_driver"}


def test_without_names_everything_is_shown(tmp_path: Path) -> None:
    slices, events, flows = shown({"CPU", "CUDA"}, {}, tmp_path)
    assert slices == ON_THREADS | ON_DEVICES | OF_CALLS
    assert events == slices | {"cpu_instant_event"}
    assert flows == 2


def test_names_of_the_cpu_choose_what_traces_show(tmp_path: Path) -> None:
    slices, events, flows = shown({"CPU"}, {"CPU": {"CPU_OP"}}, tmp_path)
    # What no name stands for is always there.
    assert slices == {"cpu_op", "cuda_sync"}
    assert events == ON_THREADS | {"cuda_sync", "cpu_instant_event"}
    assert flows == 0


def test_names_of_devices_choose_what_events_and_traces_hold(tmp_path: Path) -> None:
    names = {"CONCURRENT_KERNEL", "CUDA_RUNTIME"}
    slices, events, flows = shown({"CPU", "CUDA"}, {"CPU": set(), "CUDA": names}, tmp_path)
    assert slices == {"kernel", "cuda_runtime", "cuda_sync"}
    assert events == slices | ON_THREADS | {"cpu_instant_event"}
    assert flows == 2


def test_a_trace_without_allocations_and_steps_has_neither(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=1)
    builder.add_event("aten::add", 0, 10)
    builder.add_step(0, 20, 1)
    chrome.write_trace(builder.finish(), tmp_path / "trace.json", left_out={EventKind.USER})
    lines = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [line["name"] for line in lines if line["ph"] == "X"] == ["aten::add"]
