"""Allocations and frees as they are recorded, beside an independent ledger and torch.profiler."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator,no-untyped-call"

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import MemoryFlags, Recording
from tests.support.ledger import Ledger, ledger_beneath, ledger_library
from tests.support.recorded_ops import record

MEMORY = CaptureOptions(profile_memory=True)
STEPS = 3
KIB = 1024


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    with ledger_beneath() as ledger:
        yield ledger


def flags_of(rows: Any) -> list[int]:
    return [int(flags) for flags in rows["flags"]]


def sizes_of(recording: Recording) -> list[int]:
    return [int(size) for size in recording.memory["size_bytes"]]


def live_at(recording: Recording, time_ns: int) -> int:
    """What the recording says is allocated at that time."""
    until = recording.memory[recording.memory["time_ns"] <= time_ns]
    return int(until["total_allocated_bytes"][-1]) if len(until) else 0


def mlp() -> tuple[nn.Module, torch.Tensor]:
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4)), torch.randn(16, 32)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    layers = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 4),
    )
    return layers, torch.randn(2, 3, 12, 12)


def transformer() -> tuple[nn.Module, torch.Tensor]:
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(2, 5, 16)


@pytest.mark.parametrize("made", [mlp, cnn, transformer])
def test_the_ledger_agrees_at_every_step_end(
    ledger: Ledger, made: Callable[[], tuple[nn.Module, torch.Tensor]]
) -> None:
    model, batch = made()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    capture = Capture(options=MEMORY)
    capture.start()
    ledger.open()
    booked = []
    for number in range(STEPS):
        capture.begin_step(number)
        model(batch).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        capture.end_step()
        booked.append(ledger.live_bytes)
    allocations, frees = ledger.allocations, ledger.frees
    recording = capture.stop()
    assert [live_at(recording, step.end_ns) for step in recording.steps] == booked
    is_free = recording.memory["flags"] & MemoryFlags.FREE != 0
    is_known = recording.memory["flags"] & MemoryFlags.BEFORE_CAPTURE == 0
    assert int((~is_free).sum()) == allocations
    assert int((is_free & is_known).sum()) == frees
    assert recording.drops == {}


def test_a_block_is_one_lifetime_whatever_thread_frees_it(ledger: Ledger) -> None:
    held: list[torch.Tensor] = []
    allocated = threading.Event()
    freed = threading.Event()

    def free_without_an_op() -> None:
        allocated.wait()
        held.clear()
        freed.set()

    def work() -> None:
        thread = threading.Thread(target=free_without_an_op)
        thread.start()
        held.append(torch.empty(3 * KIB, dtype=torch.uint8))
        allocated.set()
        freed.wait()
        thread.join()

    recording = record(work, profile_memory=True)
    allocation, free = recording.memory
    assert (int(allocation["size_bytes"]), int(free["size_bytes"])) == (3 * KIB, -3 * KIB)
    assert int(allocation["address"]) == int(free["address"]) != 0
    assert recording.tracks[int(free["track"])].torch_thread_id == 0  # torch never named it
    assert int(free["track"]) != int(allocation["track"])
    assert recording.event_name(int(allocation["event"])) == "aten::empty"
    assert int(free["event"]) == -1
    assert int(free["total_allocated_bytes"]) == 0


def test_an_allocation_belongs_to_the_innermost_event() -> None:
    def work() -> None:
        with torch.profiler.record_function("outer"):
            torch.ones(KIB)

    recording = record(work, profile_memory=True)
    allocation = recording.memory[0]
    row = int(allocation["event"])
    assert recording.event_name(row) == "aten::empty"
    parents = []
    while row >= 0:
        parents.append(recording.event_name(row))
        row = int(recording.tree().parent[row])
    assert parents == ["aten::empty", "aten::ones", "outer"]


def test_frees_of_an_earlier_capture_are_told_apart() -> None:
    kept: list[torch.Tensor] = []
    record(lambda: kept.append(torch.empty(KIB, dtype=torch.uint8)), profile_memory=True)

    def work() -> None:
        kept.clear()
        kept.append(torch.empty(2 * KIB, dtype=torch.uint8))

    recording = record(work, profile_memory=True)
    old, new = recording.memory
    assert flags_of(recording.memory) == [MemoryFlags.FREE | MemoryFlags.BEFORE_CAPTURE, 0]
    assert (int(old["size_bytes"]), int(old["total_allocated_bytes"])) == (0, 0)
    assert int(new["total_allocated_bytes"]) == 2 * KIB


def test_blocks_outlive_the_capture(ledger: Ledger) -> None:
    before = ledger_library().current_allocator()
    ledger.open()
    kept: list[torch.Tensor] = []
    record(lambda: kept.append(torch.full((KIB,), 7, dtype=torch.uint8)), profile_memory=True)
    assert ledger_library().current_allocator() == before
    assert kept[0].tolist() == [7] * KIB
    kept[0].resize_(4 * KIB).fill_(1)  # its storage still refers to the allocator it came from
    assert ledger.live_bytes == 4 * KIB
    kept.clear()
    assert (ledger.live_bytes, ledger.allocations - ledger.frees) == (0, 0)


def test_a_resized_storage_is_a_new_block() -> None:
    def work() -> None:
        tensor = torch.empty(KIB, dtype=torch.uint8)
        tensor.resize_(2 * KIB)
        del tensor

    assert sizes_of(record(work, profile_memory=True)) == [KIB, 2 * KIB, -KIB, -2 * KIB]


def test_memory_that_no_allocator_gave_is_not_seen() -> None:
    array = np.zeros(KIB, dtype=np.uint8)

    def work() -> None:
        shared = torch.from_numpy(array)
        view = shared[1:]
        del view, shared
        torch.empty(0)

    assert sizes_of(record(work, profile_memory=True)) == []


def test_out_of_memory_is_recorded_and_passed_on() -> None:
    too_much = 1 << 60

    def work() -> None:
        with pytest.raises(RuntimeError, match="memory"):
            torch.empty(too_much, dtype=torch.uint8)
        torch.empty(KIB, dtype=torch.uint8)

    recording = record(work, profile_memory=True)
    assert sizes_of(recording) == [too_much, KIB, -KIB]
    assert flags_of(recording.memory) == [MemoryFlags.OUT_OF_MEMORY, 0, MemoryFlags.FREE]
    assert recording.event_name(int(recording.memory["event"][0])) == "aten::empty"
    assert [int(total) for total in recording.memory["total_allocated_bytes"]] == [0, KIB, 0]


@pytest.mark.parametrize("with_contexts", [False, True])
def test_a_block_keeps_what_its_allocator_promises(with_contexts: bool) -> None:
    with ledger_beneath(with_contexts=with_contexts) as ledger:
        ledger.open()
        capture = Capture(options=MEMORY)
        capture.start()
        if with_contexts:
            assert ledger_library().current_raw_deleter() == 0
        else:
            assert ledger_library().raw_round_trip(KIB) == 1
        tensor = torch.ones(KIB)
        assert tensor.clone().sum().item() == KIB
        del tensor
        gc.collect()
        recording = capture.stop()
        assert ledger.live_bytes == 0
        frees = sum(flags == MemoryFlags.FREE for flags in flags_of(recording.memory))
        assert (frees, len(recording.memory)) == (ledger.frees, ledger.allocations + ledger.frees)
        assert frees > 0


def test_an_allocator_set_by_another_is_left_alone() -> None:
    library = ledger_library()
    original = library.current_allocator()
    capture = Capture(options=MEMORY)
    capture.start()
    library.ledger_install(0)
    its_own = library.current_allocator()
    tensor = torch.empty(KIB, dtype=torch.uint8)
    recording = capture.stop()
    assert library.current_allocator() == its_own
    assert sizes_of(recording) == [KIB]  # it calls ours
    second = record(lambda: torch.empty(2 * KIB, dtype=torch.uint8), profile_memory=True)
    assert sizes_of(second) == [2 * KIB, -2 * KIB]  # once, though ours stands before and behind it
    assert library.current_allocator() == its_own
    library.ledger_uninstall()
    record(lambda: None, profile_memory=True)  # the one it was set before is ours: it goes at the next stop
    assert library.current_allocator() == original
    assert tensor.fill_(3).sum().item() == 3 * KIB


def test_captures_that_overlap_record_each_what_they_saw() -> None:
    before = ledger_library().current_allocator()
    captures = [Capture(options=MEMORY) for _ in range(4)]
    for index, capture in enumerate(captures):
        capture.start()
        torch.empty(KIB << index, dtype=torch.uint8)
    recordings = []
    for capture in captures:
        recordings.append(capture.stop())
        torch.empty(KIB << 4, dtype=torch.uint8)
    sizes = [[size for size in sizes_of(recording) if size > 0] for recording in recordings]
    last = [KIB << 4]
    assert sizes == [
        [KIB << 0, KIB << 1, KIB << 2, KIB << 3],
        [KIB << 1, KIB << 2, KIB << 3, *last],
        [KIB << 2, KIB << 3, *last * 2],
        [KIB << 3, *last * 3],
    ]
    assert ledger_library().current_allocator() == before


def test_a_hundred_captures_leave_torch_as_it_was() -> None:
    before = ledger_library().current_allocator()
    gc.freeze()  # each capture looks at all objects, of which tests have many
    try:
        for _ in range(100):
            recording = record(lambda: torch.empty(KIB, dtype=torch.uint8), profile_memory=True)
            assert sizes_of(recording) == [KIB, -KIB]
    finally:
        gc.unfreeze()
    assert ledger_library().current_allocator() == before


def test_without_the_option_no_allocation_is_recorded() -> None:
    before = ledger_library().current_allocator()
    capture = Capture()
    capture.start()
    assert ledger_library().current_allocator() == before
    torch.ones(KIB)
    assert len(capture.stop().memory) == 0


def test_many_threads_agree_with_the_ledger(ledger: Ledger) -> None:
    swapped: list[torch.Tensor] = []

    def churn() -> None:
        for size in range(1, 200):
            swapped.append(torch.empty(size, dtype=torch.uint8))
            if len(swapped) > 50:
                swapped.pop(0)

    capture = Capture(options=MEMORY)
    capture.start()
    ledger.open()
    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    booked = ledger.live_bytes
    recording = capture.stop()
    assert int(recording.memory["total_allocated_bytes"][-1]) == booked
    assert (recording.memory["total_allocated_bytes"] >= 0).all()
    assert not (recording.memory["flags"] & MemoryFlags.BEFORE_CAPTURE).any()


def test_a_full_recording_counts_what_it_drops() -> None:
    def work() -> None:
        for _ in range(20_000):
            torch.empty(1)

    recording = record(work, profile_memory=True, buffer_size_bytes=512 * KIB)
    assert set(recording.drops) == {"byte_cap"}
    assert recording.drops["byte_cap"] > 20_000
    assert (recording.memory["total_allocated_bytes"] >= 0).all()


def kineto_memory(work: Callable[[], object]) -> list[tuple[int, int]]:
    """(bytes, total allocated) of torch.profiler's "[memory]" events."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        work()
    events = profiler.profiler.kineto_results.events()
    return [(event.nbytes(), event.nbytes()) for event in events if event.name() == "[memory]"]


def test_torch_profiler_says_the_same() -> None:
    model, batch = mlp()

    def work() -> None:
        model(batch).square().mean().backward()
        for parameter in model.parameters():
            parameter.grad = None

    work()
    recordings: list[Recording] = []
    theirs = kineto_memory(lambda: recordings.append(record(work, profile_memory=True)))
    ours = sizes_of(recordings[0])
    assert sorted(ours) == sorted(size for size, _ in theirs)


@pytest.mark.parametrize("place", ["before", "during", "after"])
def test_torch_profiler_is_unharmed(place: str) -> None:
    def work() -> None:
        torch.ones(KIB) + torch.ones(KIB)

    work()
    expected = sorted(kineto_memory(work))
    capture = Capture(options=MEMORY)
    if place == "before":
        capture.start()
        capture.stop()
        found = kineto_memory(work)
    elif place == "during":
        capture.start()
        found = kineto_memory(work)
        capture.stop()
    else:
        found = []

        def in_the_middle() -> None:
            capture.start()
            capture.stop()
            work()

        found = kineto_memory(in_the_middle)
    assert sorted(found) == expected
    assert torch._C._autograd._profiler_type().name == "NONE"
