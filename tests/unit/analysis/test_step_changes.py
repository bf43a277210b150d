"""What a step is said to differ in: ops, work on devices, waits."""

from __future__ import annotations

from itertools import pairwise

import pytest

from otel_torchprof.analysis.averages import Side
from otel_torchprof.analysis.step_changes import StepChange, StepComparison, WaitChange
from otel_torchprof.recording import EventKind, Recording, RecordingBuilder, StepFlags, TrackKind

MS = 1_000_000
SLOW = 2


class Loop:
    """Four steps of 100 ms and a partial one before them; step 2 can be given more."""

    def __init__(self) -> None:
        self.builder = RecordingBuilder()
        self.thread = self.builder.add_track("main", thread_id=1)
        self.stream = self.builder.add_track("stream 7", TrackKind.STREAM, device=0)
        for number in range(5):
            flags = StepFlags.HAS_NUMBER | (StepFlags(0) if number else StepFlags.PARTIAL)
            start_ns = number * 100 * MS
            self.builder.add_step(start_ns, start_ns + 100 * MS, number, track=self.thread, flags=flags)
            self.builder.add_event(
                f"ProfilerStep#{number}",
                start_ns,
                start_ns + 100 * MS,
                track=self.thread,
                kind=EventKind.USER,
            )
            self.add("aten::mm", number, 0, 10)

    def add(self, name: str, step: int, at_ms: int, ms: int, kind: EventKind = EventKind.OP) -> None:
        start_ns = (step * 100 + at_ms) * MS
        is_work = kind == EventKind.KERNEL
        track = self.stream if is_work else self.thread
        self.builder.add_event(name, start_ns, start_ns + ms * MS, track=track, kind=kind)

    def finish(self) -> Recording:
        return self.builder.finish()


def test_names_are_compared_with_the_median_of_whole_steps() -> None:
    loop = Loop()
    loop.add("aten::mm", SLOW, 20, 30)
    loop.add("aten::cos", SLOW, 60, 2)
    for step in range(5):
        loop.add("void gemm<float>(float*)", step, 0, 1 if step == SLOW else 5, EventKind.KERNEL)
    changes = StepComparison(loop.finish()).changes(SLOW)
    assert changes == [
        StepChange("aten::mm", Side.THREADS, 2, 1, 40 * MS, 10 * MS),
        StepChange("gemm", Side.DEVICES, 1, 1, 1 * MS, 5 * MS),
        StepChange("aten::cos", Side.THREADS, 1, 0, 2 * MS, 0),
    ]
    assert [change.change_ns // MS for change in changes] == [30, -4, 2]


def waits_of(loop: Loop) -> list[WaitChange]:
    waits = StepComparison(loop.finish()).waits(SLOW)
    return [wait for wait in waits if wait.name != "untraced code"]


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", EventKind.USER, "waiting for data"),
        ("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", EventKind.OP, "waiting for data"),
        ("cudaStreamSynchronize", EventKind.RUNTIME, "waiting for a device"),
        ("hipDeviceSynchronize", EventKind.RUNTIME, "waiting for a device"),
        ("gc.collect", EventKind.PYTHON_C, "collecting garbage"),
        ("collect", EventKind.PYTHON_C, "collecting garbage"),
    ],
)
def test_waits_are_told_by_what_is_waited_for(name: str, kind: EventKind, said: str) -> None:
    loop = Loop()
    for step in (SLOW - 1, SLOW):
        loop.add(name, step, 40, 30, kind)
    assert waits_of(loop) == [WaitChange(said, 30 * MS, 15 * MS)]


def test_a_wait_within_a_wait_counts_once() -> None:
    loop = Loop()
    loop.add("enumerate(DataLoader)#Outer.__next__", SLOW, 40, 30, EventKind.USER)
    loop.add("enumerate(DataLoader)#Inner.__next__", SLOW, 45, 20, EventKind.USER)
    assert waits_of(loop) == [WaitChange("waiting for data", 30 * MS, 0)]


def test_compilations_are_seen_by_the_gap_before_the_first_run() -> None:
    loop = Loop()
    for step in (SLOW, SLOW + 1):
        loop.add("TorchDynamo Cache Lookup", step, 20, 1)
        loop.add("Torch-Compiled Region: 0/1", step, 61, 4)
    assert waits_of(loop) == [WaitChange("compiling", 40 * MS, 0)]


def test_untraced_code_is_what_no_event_but_the_mark_covers() -> None:
    loop = Loop()
    loop.add("aten::cos", SLOW, 20, 50)
    loop.add("aten::neg", SLOW, 30, 10)
    assert StepComparison(loop.finish()).waits(SLOW) == [WaitChange("untraced code", 40 * MS, 90 * MS)]


@pytest.mark.parametrize("marked", [False, True])
def test_the_function_that_holds_the_loop_is_what_a_slow_step_spent_its_time_in(marked: bool) -> None:
    builder = RecordingBuilder()
    thread = builder.add_track("main", thread_id=1)
    builder.add_track("waits for work", thread_id=2)
    builder.add_event("main", -MS, 2_000 * MS, track=thread, kind=EventKind.PYTHON)
    builder.add_event("wait", -MS, 2_000 * MS, track=1, kind=EventKind.PYTHON)
    bounds = [0, 100, 200, 900, 1000, 1100]
    for number, (start, end) in enumerate(pairwise(bounds)):
        builder.add_step(start * MS, end * MS, number, track=thread, flags=StepFlags.HAS_NUMBER)
        builder.add_event("aten::mm", (start + 10) * MS, (start + 50) * MS, track=thread)
        if marked:
            mark = f"ProfilerStep#{number}"
            builder.add_event(mark, start * MS, end * MS, track=thread, kind=EventKind.USER)
    comparison = StepComparison(builder.finish())
    (change,) = comparison.changes(2)
    assert (change.name, change.time_ns, change.usual_ns) == ("main", 660 * MS, 60 * MS)
    assert comparison.waits(2) == []


def two_threads(*, process_id: int = 1, other_ms: int = 0, forward_thread: int = 7) -> list[WaitChange]:
    """Step 2 begins and ends with 20 ms of ops; between, another thread runs 50 ms of which 10 ms overlap."""
    builder = RecordingBuilder()
    thread = builder.add_track("main", process_id=1, thread_id=1)
    autograd = builder.add_track("pt_autograd_0", process_id=process_id, thread_id=2)
    for step in range(SLOW + 1):
        start_ns = step * 100 * MS
        builder.add_step(start_ns, start_ns + 100 * MS, step, track=thread, flags=StepFlags.HAS_NUMBER)
        builder.add_event("aten::mm", start_ns, start_ns + 20 * MS, track=thread)
        builder.add_event("aten::add_", start_ns + 80 * MS, start_ns + 100 * MS, track=thread)
    start_ns = SLOW * 100 * MS
    builder.add_event(
        "MmBackward0",
        start_ns + 10 * MS,
        start_ns + 60 * MS,
        track=autograd,
        sequence=3,
        forward_thread=forward_thread,
    )
    builder.add_event("aten::sum", start_ns + 60 * MS, start_ns + (60 + other_ms) * MS, track=autograd)
    return StepComparison(builder.finish()).waits(SLOW)


def test_a_backward_on_another_thread_is_no_untraced_code() -> None:
    assert two_threads() == [
        WaitChange("backward on another thread", 40 * MS, 0),
        WaitChange("untraced code", 20 * MS, 60 * MS),
    ]
    # What that thread does between functions of the backward is part of it, as adding up gradients was once.
    assert two_threads(other_ms=10)[0] == WaitChange("backward on another thread", 50 * MS, 0)


@pytest.mark.parametrize(
    "changed",
    [{"process_id": 2}, {"other_ms": 60}, {"forward_thread": 0}],
    ids=["of another process", "a thread that does other things", "no backward"],
)
def test_nothing_waits_for_other_threads_where_it_is_not_sure(changed: dict[str, int]) -> None:
    assert two_threads(**changed) == [WaitChange("untraced code", 60 * MS, 60 * MS)]


def test_a_thread_that_is_in_an_event_itself_does_not_wait_for_a_backward() -> None:
    loop = Loop()
    autograd = loop.builder.add_track("pt_autograd_0", thread_id=2)
    at_ns = (SLOW * 100 + 30) * MS
    loop.add("call of backward", SLOW, 20, 50, EventKind.USER)
    loop.builder.add_event("MmBackward0", at_ns, at_ns + 10 * MS, track=autograd, forward_thread=7)
    assert StepComparison(loop.finish()).waits(SLOW) == [WaitChange("untraced code", 40 * MS, 90 * MS)]
