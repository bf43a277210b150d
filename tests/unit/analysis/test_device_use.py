"""How devices were used: exact figures of small programs, and totals of random ones."""

from __future__ import annotations

import pytest
from hypothesis import given

from otel_torchprof.analysis.device_use import (
    MAX_PAUSES,
    BlockingCalls,
    Pause,
    blocking_calls,
    device_uses,
)
from otel_torchprof.recording import EventKind, LinkType, Recording, RecordingBuilder, TrackKind
from tests.support.device_programs import US, DeviceProgram
from tests.support.recordings import recordings


def launched(*works: tuple[int, int, int], stream: int = 7) -> Recording:
    """Work of one stream, each as the end of its call, its start and its end in us."""
    builder = RecordingBuilder()
    thread = builder.add_track("main", thread_id=100)
    lane = builder.add_track("", TrackKind.STREAM, thread_id=stream, device=1)
    for launched_us, start_us, end_us in works:
        call = builder.add_event(
            "cudaLaunchKernel", (launched_us - 1) * US, launched_us * US, track=thread, kind=EventKind.RUNTIME
        )
        work = builder.add_event("k", start_us * US, end_us * US, track=lane, kind=EventKind.KERNEL)
        builder.add_link(call, work, LinkType.LAUNCH)
    return builder.finish()


def test_a_device_that_always_has_something_queued_waits_for_no_launch() -> None:
    (use,) = device_uses(launched((1, 5, 20), (2, 20, 30), (3, 32, 40)))
    assert (use.number, use.kernels, use.copies) == (1, 3, 0)
    assert (use.span_ns, use.busy_ns, use.kernel_ns, use.idle_ns) == (35 * US, 33 * US, 33 * US, 2 * US)
    assert (use.launch_wait_ns, use.launched_kernels, use.late_kernels) == (0, 3, 0)
    assert (use.pauses, use.longest_pauses) == (1, [Pause(30 * US, 2 * US)])


def test_a_device_that_ran_dry_waits_until_the_next_launch_is_over() -> None:
    # Dry at 20: launched at 28, began at 33. Dry at 40: began at 45, before its call was over.
    (use,) = device_uses(launched((1, 5, 20), (28, 33, 40), (47, 45, 50)))
    assert use.launch_wait_ns == (8 + 5) * US
    assert (use.idle_ns, use.late_kernels) == ((13 + 5) * US, 2)


def test_a_device_has_run_dry_when_all_its_streams_have() -> None:
    builder = RecordingBuilder()
    thread = builder.add_track("main", thread_id=100)
    lanes = [builder.add_track("", TrackKind.STREAM, thread_id=stream, device=0) for stream in (7, 8)]
    # The second runs beside the first; the third comes when its own stream is done, and the fourth when
    # both are.
    for lane, launched_us, start_us, end_us in (
        (0, 1, 5, 40),
        (1, 2, 6, 10),
        (1, 12, 13, 20),
        (1, 50, 51, 60),
    ):
        call = builder.add_event(
            "cudaLaunchKernel", (launched_us - 1) * US, launched_us * US, track=thread, kind=EventKind.RUNTIME
        )
        work = builder.add_event("k", start_us * US, end_us * US, track=lanes[lane], kind=EventKind.KERNEL)
        builder.add_link(call, work, LinkType.LAUNCH)
    (use,) = device_uses(builder.finish())
    assert (use.launched_kernels, use.late_kernels) == (4, 1)


def test_work_without_a_known_call_says_nothing_of_waiting() -> None:
    builder = RecordingBuilder()
    lane = builder.add_track("", TrackKind.STREAM, thread_id=7, device=0)
    for start_us in (0, 10):
        builder.add_event("k", start_us * US, (start_us + 2) * US, track=lane, kind=EventKind.KERNEL)
    builder.add_event("Memset", 4 * US, 5 * US, track=lane, kind=EventKind.MEMSET)
    (use,) = device_uses(builder.finish())
    assert (use.launch_wait_ns, use.launched_kernels, use.late_kernels) == (0, 0, 0)
    assert (use.kernels, use.copies, use.kernel_ns, use.copy_ns) == (2, 1, 4 * US, 1 * US)


def test_only_the_longest_pauses_are_listed() -> None:
    starts = [place * (place + 10) for place in range(2 * MAX_PAUSES)]
    (use,) = device_uses(launched(*((start, start, start + 1) for start in starts)))
    assert use.pauses == 2 * MAX_PAUSES - 1
    lengths = [pause.duration_ns for pause in use.longest_pauses]
    assert lengths == sorted(lengths, reverse=True)
    assert len(lengths) == MAX_PAUSES


def test_waits_are_summed_by_call_and_by_what_made_it() -> None:
    program = DeviceProgram()
    for _ in range(2):
        with program.op("aten::item"):
            program.kernel("k", us=50)
            program.runtime("cudaStreamSynchronize")
    program.kernel("k", us=30)
    program.runtime("cudaDeviceSynchronize")
    program.runtime("cudaMemcpyAsync")
    assert blocking_calls(program.finish()) == [
        BlockingCalls("cudaStreamSynchronize", "aten::item", 2, 100 * US, 50 * US),
        BlockingCalls("cudaDeviceSynchronize", "", 1, 30 * US, 30 * US),
    ]


@pytest.mark.parametrize(
    ("call", "blocks"),
    [
        ("cudaEventSynchronize", True),
        ("cuStreamSynchronize", True),
        ("cudaStreamSynchronize_ptsz", True),
        ("hipMemcpyWithStream", True),
        ("cudaMemcpy", True),
        ("cudaMemcpyAsync", False),
        ("cudaLaunchKernel", False),
        ("customSynchronize", False),
    ],
)
def test_which_calls_wait(call: str, blocks: bool) -> None:
    program = DeviceProgram()
    with program.op("aten::op"):
        program.runtime(call)
    assert [one.call for one in blocking_calls(program.finish())] == ([call] if blocks else [])


def test_a_thread_that_only_waits_keeps_nobody_waiting() -> None:
    builder = RecordingBuilder()
    builder.add_track("waits for the end", thread_id=5)
    builder.add_event("cudaDeviceSynchronize", 0, 100, kind=EventKind.RUNTIME)
    assert blocking_calls(builder.finish()) == []


def test_a_recording_without_work_has_no_devices() -> None:
    assert device_uses(Recording.empty()) == []
    assert blocking_calls(Recording.empty()) == []


@given(recordings())
def test_parts_make_the_whole(recording: Recording) -> None:
    for use in device_uses(recording):
        assert use.busy_ns + use.idle_ns == use.span_ns
        assert max(use.kernel_ns, use.copy_ns) <= use.busy_ns <= use.kernel_ns + use.copy_ns
        assert 0 <= use.launch_wait_ns <= use.idle_ns
        assert 0 <= use.late_kernels <= use.launched_kernels <= use.kernels
        assert sum(pause.duration_ns for pause in use.longest_pauses) <= use.idle_ns
