"""Times of devices in events, averages and tables: work counts for what launched it, and once in sums."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_torchprof.profiling.event_rows import ViewOptions
from otel_torchprof.profiling.results import Results
from otel_torchprof.recording import EventKind, LinkType, Recording, RecordingBuilder, TrackKind

US = 1000


@pytest.fixture
def recording() -> Recording:
    """An op in an op that launched a kernel of 30 us; the outer one launched another, of 5 us."""
    builder = RecordingBuilder()
    thread = builder.add_track("main", process_id=1, thread_id=1, torch_thread_id=1)
    stream = builder.add_track("stream 7", TrackKind.STREAM, process_id=1, thread_id=7, device=0)

    def event(name: str, kind: EventKind, start_us: int, end_us: int, track: int = thread) -> int:
        return builder.add_event(name, start_us * US, end_us * US, track=track, kind=kind)

    event("aten::linear", EventKind.OP, 0, 100)
    event("aten::addmm", EventKind.OP, 10, 60)
    inner = event("cudaLaunchKernel", EventKind.RUNTIME, 20, 30)
    outer = event("cudaLaunchKernel", EventKind.RUNTIME, 70, 80)
    gemm = event("gemm", EventKind.KERNEL, 40, 70, stream)
    fill = event("fill", EventKind.KERNEL, 80, 85, stream)
    builder.add_link(inner, gemm, LinkType.LAUNCH)
    builder.add_link(outer, fill, LinkType.LAUNCH)
    return builder.finish()


def test_work_counts_for_the_op_that_launched_it_and_those_around(recording: Recording) -> None:
    events = {event.name: event for event in Results([recording], ViewOptions(use_device="cuda")).events()}
    linear, addmm, gemm = events["aten::linear"], events["aten::addmm"], events["gemm"]
    assert (linear.device_time_total, linear.self_device_time_total) == (35, 5)
    assert (addmm.device_time_total, addmm.self_device_time_total) == (30, 30)
    assert (gemm.device_time_total, gemm.self_device_time_total, gemm.cpu_time_total) == (30, 30, 0)
    assert [(kernel.name, kernel.duration) for kernel in addmm.kernels] == [("gemm", 30)]
    assert [kernel.name for kernel in linear.kernels] == ["fill"]
    assert (str(gemm.device_type), gemm.device_index, gemm.device_resource_id) == ("DeviceType.CUDA", 0, 7)


def test_averages_and_the_table_say_the_same(recording: Recording) -> None:
    averages = Results([recording], ViewOptions(use_device="cuda")).key_averages()
    assert {a.key: (a.device_time_total, a.self_device_time_total) for a in averages} == {
        "aten::linear": (35, 5),
        "aten::addmm": (30, 30),
        "cudaLaunchKernel": (0, 0),
        "gemm": (30, 30),
        "fill": (5, 5),
    }
    table = averages.table(sort_by="cuda_time_total")
    assert "Self CUDA time total: 35.000us" in table
    assert "Self CPU time total: 100.000us" in table
    assert "CUDA time avg" in table


def test_without_a_device_there_are_no_columns_of_it(recording: Recording) -> None:
    table = Results([recording], ViewOptions()).key_averages().table()
    assert "CUDA" not in table


def test_without_the_cpu_devices_and_the_calls_to_them_remain(recording: Recording) -> None:
    events = Results([recording], ViewOptions(with_cpu=False, use_device="cuda")).events()
    assert [event.name for event in events] == ["cudaLaunchKernel", "gemm", "cudaLaunchKernel", "fill"]


def test_stacks_by_device_time(recording: Recording, tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    Results([recording], ViewOptions(use_device="cuda")).export_stacks(path, "self_cuda_time_total")
    assert sorted(path.read_text().splitlines()) == ["aten::linear 5", "aten::linear;aten::addmm 30"]


def test_an_activity_names_the_device_it_ran_on_and_the_op_that_launched_it(recording: Recording) -> None:
    results = Results([recording], ViewOptions(use_device="cuda"))
    activities = {activity.name(): activity for activity in results.kineto_results.trace_activities()}
    gemm, linear = activities["gemm"], activities["aten::linear"]
    assert (gemm.type(), gemm.device_id(), gemm.resource_id()) == ("kernel", 0, 7)
    assert (gemm.timestamp(), gemm.duration()) == (40 * US, 30 * US)
    assert (linear.type(), linear.device_id(), linear.resource_id()) == ("cpu_op", 1, 1)
    launcher = gemm.linked_activity()
    assert launcher is not None
    assert (launcher.name(), launcher.correlation_id()) == ("aten::addmm", 2)
    assert linear.linked_activity() is None


def test_flops_speak_for_time_on_devices_where_there_is_any(recording: Recording) -> None:
    assert Results([recording], ViewOptions(use_device="cuda")).flops_coverage() == 0
    assert Results([RecordingBuilder().finish()], ViewOptions()).flops_coverage() is None
