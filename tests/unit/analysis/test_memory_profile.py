"""Blocks, timeline, peak and growth from records of memory alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.memory import NEVER, Category, MemoryProfile, Timeline, condense
from otel_torchprof.analysis.memory.places import Places, dense_ids
from otel_torchprof.recording import (
    MEMORY_DTYPE,
    TENSOR_ROLE_DTYPE,
    EventKind,
    MemoryFlags,
    Recording,
    RecordingBuilder,
    TensorRole,
)

Row = tuple[int, int, int, int]  # time, event, address, bytes; negative: freed, 0: freed, not known


def make(rows: Sequence[Row], builder: RecordingBuilder | None = None, device: int = -1) -> Recording:
    builder = builder or RecordingBuilder()
    track = builder.add_track("python")
    records = np.zeros(len(rows), dtype=MEMORY_DTYPE)
    for record, (time_ns, event, address, size) in zip(records, rows, strict=True):
        record["time_ns"], record["event"], record["address"], record["size_bytes"] = (
            time_ns,
            event,
            address,
            size,
        )
        record["flags"] = MemoryFlags.FREE if size <= 0 else 0
    records["track"], records["device"], records["device_type"] = track, device, device >= 0
    builder.add_memory(records)
    return builder.finish()


def lives(recording: Recording) -> list[tuple[int, int, int, int | None]]:
    """Address, bytes, start and end of each block, by start."""
    blocks = MemoryProfile(recording).blocks
    rows = [
        (
            int(blocks.address[row]),
            int(blocks.size_bytes[row]),
            int(blocks.start_ns[row]),
            int(blocks.end_ns[row]),
        )
        for row in np.lexsort((blocks.address, blocks.start_ns))
    ]
    return [(address, size, start, None if end == NEVER else end) for address, size, start, end in rows]


def test_an_address_is_another_block_each_time_it_is_allocated() -> None:
    recording = make([(1, -1, 64, 10), (2, -1, 64, -10), (3, -1, 64, 20), (4, -1, 128, 5)])
    assert lives(recording) == [(64, 10, 1, 2), (64, 20, 3, None), (128, 5, 4, None)]


def test_a_free_that_was_not_seen_ends_with_the_next_allocation() -> None:
    assert lives(make([(1, -1, 64, 10), (5, -1, 64, 20)])) == [(64, 10, 1, 5), (64, 20, 5, None)]


def test_a_free_of_known_size_alone_was_there_before() -> None:
    assert lives(make([(1, -1, 128, 8), (3, -1, 64, -10)])) == [(64, 10, 1, 3), (128, 8, 1, None)]


def test_a_free_of_which_nothing_is_known_is_no_block() -> None:
    assert lives(make([(1, -1, 64, 0), (2, -1, 64, 10)])) == [(64, 10, 2, None)]


def test_devices_with_equal_addresses_are_apart() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("python")
    records = np.zeros(2, dtype=MEMORY_DTYPE)
    records["time_ns"], records["event"], records["address"], records["size_bytes"] = [1, 2], -1, 64, [8, 32]
    records["device"], records["device_type"], records["track"] = [0, 1], 1, track
    builder.add_memory(records)
    devices = MemoryProfile(builder.finish()).devices
    assert [(memory.device.name, memory.peak.total_bytes) for memory in devices] == [
        ("cuda:1", 32),
        ("cuda:0", 8),
    ]


def test_what_is_noted_lives_from_the_start_and_to_its_free() -> None:
    builder = RecordingBuilder()
    roles = np.zeros(3, dtype=TENSOR_ROLE_DTYPE)
    name = builder.add_name("weight")
    for record, (time_ns, address) in zip(roles, [(5, 64), (9, 64), (5, 256)], strict=True):
        record["time_ns"], record["address"], record["size_bytes"], record["name"] = (
            time_ns,
            address,
            100,
            name,
        )
        record["role"], record["device"] = TensorRole.PARAMETER, -1
    builder.add_tensor_roles(roles)
    builder.cover(0, 20)
    recording = make([(7, -1, 256, 0), (8, -1, 256, 50)], builder)
    assert lives(recording) == [(64, 100, 0, None), (256, 100, 0, 7), (256, 50, 8, None)]
    profile = MemoryProfile(recording)
    (cpu,) = profile.devices
    assert cpu.peak.by_category[Category.PARAMETER] == 200
    assert sorted(profile.names) == ["", "weight", "weight"]


def test_the_peak_is_its_first_moment_and_says_what_was_there() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("python")
    module = builder.add_event("Net", 0, 100, track=track, kind=EventKind.MODULE, overload="encoder.0")
    frame = builder.add_event("forward", 0, 50, track=track, kind=EventKind.PYTHON, overload="net.py:7")
    op = builder.add_event("aten::mm", 10, 20, track=track)
    inner = builder.add_event("aten::empty", 11, 12, track=track)
    assert (module, frame) == (0, 1)
    rows = [(11, inner, 64, 100), (15, op, 256, 50), (60, -1, 64, -100), (70, -1, 512, 100)]
    (cpu,) = MemoryProfile(make(rows, builder)).devices
    peak = cpu.peak
    assert (peak.time_ns, peak.total_bytes) == (15, 150)
    assert [(share.name, share.size_bytes, share.blocks) for share in peak.by_operator] == [
        ("aten::mm", 150, 2)
    ]
    assert [(share.name, share.size_bytes) for share in peak.by_module] == [("encoder.0", 150)]
    assert [(share.name, share.size_bytes) for share in peak.by_stack] == [("forward (net.py:7)", 150)]
    assert [(block.size_bytes, block.operator, block.stack) for block in peak.largest] == [
        (100, "aten::mm", ("forward (net.py:7)",)),
        (50, "aten::mm", ("forward (net.py:7)",)),
    ]


def test_out_of_memory_is_no_memory() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("python")
    records = np.zeros(1, dtype=MEMORY_DTYPE)
    records["event"], records["size_bytes"], records["track"] = -1, 1 << 40, track
    records["flags"] = MemoryFlags.OUT_OF_MEMORY
    builder.add_memory(records)
    assert MemoryProfile(builder.finish()).devices == []


def test_a_gradient_is_what_an_accumulation_keeps_and_nothing_else() -> None:
    builder = RecordingBuilder()
    track = builder.add_track("python")
    accumulation = builder.add_event("torch::autograd::AccumulateGrad", 0, 10, track=track)
    copy = builder.add_event("aten::clone", 2, 8, track=track)
    other = builder.add_event("aten::mul", 20, 30, track=track)
    assert accumulation == 0
    rows = [(3, copy, 64, 100), (25, other, 256, 30)]
    (cpu,) = MemoryProfile(make(rows, builder)).devices
    assert cpu.peak.total_bytes == 130
    assert cpu.peak.by_category[Category.GRADIENT] == 100


def growing(kept_bytes: Sequence[int], steps: int = 6) -> Recording:
    """In each step `leak` allocates `kept_bytes[step]`, and `work` what it frees again."""
    builder = RecordingBuilder()
    track = builder.add_track("python")
    rows: list[Row] = []
    for step in range(steps):
        at = step * 100
        builder.add_step(at, at + 100, step, track=track)
        builder.add_event(f"ProfilerStep#{step}", at, at + 100, track=track, kind=EventKind.USER)
        leak = builder.add_event("aten::leak", at + 10, at + 20, track=track)
        work = builder.add_event("aten::work", at + 30, at + 40, track=track)
        if kept_bytes[step]:
            rows.append((at + 11, leak, 4096 * (step + 1), kept_bytes[step]))
        rows += [(at + 31, work, 64, 1000), (at + 50, -1, 64, -1000)]
    return make(rows, builder)


def test_what_rises_with_each_step_is_found() -> None:
    (cpu,) = MemoryProfile(growing([100] * 6)).devices
    (site,) = cpu.growth.sites
    assert (site.operator, site.names) == ("aten::leak", ("aten::leak",))
    assert (site.bytes_per_step, site.first_bytes, site.last_bytes, site.blocks) == (100.0, 200, 600, 6)
    assert (cpu.growth.steps, cpu.growth.bytes_per_step) == (5, 100.0)


def test_a_cache_that_fills_up_once_does_not_grow() -> None:
    (cpu,) = MemoryProfile(growing([100, 100, 0, 0, 0, 0])).devices
    assert cpu.growth.sites == []


def test_a_few_steps_say_nothing_about_growth() -> None:
    (cpu,) = MemoryProfile(growing([100] * 3, steps=3)).devices
    assert (cpu.growth.steps, cpu.growth.sites) == (2, [])


_LIVES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 50), st.integers(1, 30), st.integers(1, 1000)), max_size=30
)


@given(_LIVES)
def test_totals_equal_a_ledger_at_every_moment(wanted: list[tuple[int, int, int, int]]) -> None:
    rows: list[Row] = []
    free_at = dict.fromkeys(range(5), -1)
    kept: list[tuple[int, int, int]] = []
    for slot, start, length, size in sorted(wanted, key=lambda item: item[1]):
        if start > free_at[slot]:
            free_at[slot] = start + length
            kept.append((start, start + length, size))
            rows += [(start, -1, (slot + 1) * 64, size), (start + length, -1, (slot + 1) * 64, -size)]
    devices = MemoryProfile(make(sorted(rows))).devices
    assert len(devices) == bool(kept)
    for memory in devices:
        line = memory.timeline
        for time_ns, total in zip(line.time_ns.tolist(), line.total_bytes.tolist(), strict=True):
            assert total == sum(size for start, end, size in kept if start <= time_ns < end)
        assert memory.peak.total_bytes == int(line.total_bytes.max())
        assert sum(block.size_bytes for block in memory.peak.largest) == memory.peak.total_bytes


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=300), st.integers(1, 40))
def test_a_condensed_timeline_keeps_the_peak(sizes: list[int], moments: int) -> None:
    by_category = np.zeros((len(sizes), len(Category)), dtype=np.int64)
    by_category[:, Category.ACTIVATION] = sizes
    line = condense(Timeline(np.arange(len(sizes)), by_category), moments, 0, len(sizes))
    assert len(line.time_ns) <= max(moments, 1)
    assert int(line.total_bytes.max()) == max(sizes)
    assert np.all(np.diff(line.time_ns) > 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_dense_ids_are_equal_where_all_columns_are(pairs: list[tuple[int, int]]) -> None:
    first, second = (np.array([pair[column] for pair in pairs], dtype=np.int64) for column in (0, 1))
    ids = dense_ids(first, second).tolist()
    assert ids == [sorted(set(pairs)).index(pair) for pair in pairs]


def test_places_find_the_block_of_a_time() -> None:
    places = Places(np.array([0, 0, 1]), np.array([10, 30, 0]), np.array([20, NEVER, 5]))
    found, before = places.find(np.array([0, 0, 0, 0, 1, 1]), np.array([5, 15, 25, 31, 5, 6]))
    assert found.tolist() == [-1, 0, -1, 1, 2, -1]
    assert before.tolist() == [0, 1, 1, 2, 3, 3]
