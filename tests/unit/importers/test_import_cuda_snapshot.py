"""Snapshots of the CUDA allocator: what they hold, all their ages, and pickles that are none."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof import importers
from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers import ImportReport
from otel_torchprof.importers.cuda_rows import USER_SCOPE
from otel_torchprof.recording import EventKind, MemoryFlags, Recording
from tests.support.snapshots import (
    BASE,
    START_US,
    block,
    entry,
    frame,
    segment,
    snapshot,
    stack,
    training_snapshot,
)
from tests.support.test_data import DATA, needs_data

START_NS = START_US * 1000


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., tuple[Recording, ImportReport]]:
    def read(value: Any, protocol: int = 4) -> tuple[Recording, ImportReport]:
        path = tmp_path / "snapshot.pickle"
        path.write_bytes(pickle.dumps(value, protocol))
        return importers.load(path)

    return read


Read = Callable[..., tuple[Recording, ImportReport]]


def stack_of(recording: Recording, row: int) -> list[str]:
    """The frames around an event, innermost first."""
    return [recording.event_name(outer) for outer in [row, *recording.tree().ancestors(row)]]


def test_memory_in_use_is_what_the_snapshot_says_at_its_end(read: Read) -> None:
    recording, report = read(training_snapshot())
    assert report.format == "cuda-snapshot"
    assert report.problems == {}
    assert recording.memory["size_bytes"].tolist() == [4096, 1024, 4096, -1024]
    assert recording.memory["total_allocated_bytes"].tolist() == [4096, 5120, 9216, 8192]
    assert recording.memory["total_reserved_bytes"].tolist() == [6144, 14336, 14336, 14336]
    assert (recording.memory["address"] - BASE).tolist() == [0, 0x10000, 0x11000, 0x10000]
    assert recording.memory["device"].tolist() == [0] * 4
    assert recording.memory["device_type"].tolist() == [1] * 4
    assert recording.memory["flags"].tolist() == [0, 0, 0, MemoryFlags.FREE]


def test_the_totals_of_each_device_are_metadata(read: Read) -> None:
    recording, report = read(training_snapshot())
    (facts,) = recording.metadata["cuda_memory_snapshot"]["devices"].values()
    assert facts == {
        "segments": 2,
        "blocks_in_use": 2,
        "reserved_bytes": 14336,
        "allocated_bytes": 8192,
        "active_bytes": 8192,
        "requested_bytes": 8192,
        "trace_entries": 5,
    }
    assert report.counts["segments"] == 2
    assert report.counts["blocks"] == 2


def test_what_came_before_the_trace_stands_right_before_it(read: Read) -> None:
    recording, _report = read(training_snapshot())
    times = (recording.memory["time_ns"] - START_NS).tolist()
    assert times == [-1, 1000, 2000, 3001]  # entries of one microsecond follow each other by a nanosecond


def test_each_allocation_lies_in_its_stack(read: Read) -> None:
    recording, _report = read(training_snapshot())
    events = recording.memory["event"].tolist()
    assert stack_of(recording, events[0]) == ["__init__", "<module>"]
    assert stack_of(recording, events[1]) == ["relu", "forward", "<module>"]
    assert stack_of(recording, events[2]) == ["backward", "<module>"]
    row = events[1]
    assert recording.overload_name(int(recording.events.name[row])) == "/app/train.py:1"
    assert recording.events.kind[row] == EventKind.PYTHON


def test_a_frame_lasts_until_an_allocation_outside_it(read: Read) -> None:
    trace = [
        entry("alloc", 0, 0, 8, frames=stack("a", "main")),
        entry("alloc", 5, 64, 8, frames=[*stack("b"), *stack("a", "main")[1:]]),
        entry("alloc", 9, 128, 8, frames=[*stack("b"), *stack("a", "main")[1:]]),
    ]
    recording, _report = read(snapshot([], trace))
    slices = {
        recording.event_name(row): (int(start), int(end))
        for row, (start, end) in enumerate(
            zip(recording.events.start_ns - START_NS, recording.events.end_ns - START_NS, strict=True)
        )
    }
    assert slices == {"main": (0, 9001), "a": (0, 5000), "b": (5000, 9001)}


def test_frames_of_the_interpreter_are_left_out(read: Read) -> None:
    noise = [
        frame("torch::unwind::unwind()", 0, "??"),
        frame("torch::CapturedTraceback::gather(bool, bool, bool)", 0, "??"),
        frame("at::native::empty_cuda()", 0, "??"),
        frame("_PyEval_EvalFrameDefault", 7, "/build/Python/ceval.c"),
        frame("slot_tp_call", 7, "/build/Objects/typeobject.c"),
        frame("_start", 0, "??"),
        *stack("forward"),
    ]
    recording, _report = read(snapshot([], [entry("alloc", 0, 0, 8, frames=noise)]))
    (row,) = recording.memory["event"].tolist()
    assert stack_of(recording, row) == ["at::native::empty_cuda()", "forward"]
    assert recording.events.kind[row] == EventKind.OTHER


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_every_protocol_since_2_is_read(read: Read, protocol: int) -> None:
    expected, _report = read(training_snapshot())
    recording, report = read(training_snapshot(), protocol)
    assert report.problems == {}
    np.testing.assert_array_equal(recording.memory, expected.memory)


def test_a_block_freed_in_the_trace_only_was_there_before(read: Read) -> None:
    recording, _report = read(snapshot([], [entry("free_completed", 5, 64, 512)]))
    assert recording.memory["size_bytes"].tolist() == [512, -512]
    assert recording.memory["total_allocated_bytes"].tolist() == [512, 0]


def test_a_free_counts_when_it_is_complete(read: Read) -> None:
    trace = [entry("alloc", 0, 0, 512), entry("free_requested", 3, 0, 512), entry("alloc", 4, 4096, 256)]
    complete = [*trace, entry("free_completed", 9, 0, 512)]
    recording, _report = read(snapshot([segment(4096, block(256))], complete))
    assert recording.memory["total_allocated_bytes"].tolist() == [512, 768, 256]
    awaited = [block(512, "active_awaiting_free"), block(3584, "inactive"), block(256)]
    recording, _report = read(snapshot([segment(0, *awaited)], [*trace, entry("free_completed", 9, 99, 1)]))
    assert recording.memory["total_allocated_bytes"].tolist()[-1] == 768
    recording, _report = read(snapshot([], trace))  # of a torch that told of requests only
    assert recording.memory["total_allocated_bytes"].tolist() == [512, 0, 256]


def test_expandable_segments_grow_and_shrink_what_is_reserved(read: Read) -> None:
    trace = [
        entry("segment_map", 0, 0, 4096),
        entry("alloc", 1, 0, 512),
        entry("segment_map", 2, 4096, 4096),
        entry("alloc", 3, 4096, 512),
        entry("segment_unmap", 4, 4096, 2048),
        entry("alloc", 5, 512, 512),
    ]
    recording, _report = read(
        snapshot([segment(0, block(512), block(512), block(5120, "inactive"), is_expandable=True)], trace)
    )
    assert recording.memory["total_reserved_bytes"].tolist() == [4096, 8192, 6144]


def test_running_out_of_memory_is_a_failed_request(read: Read) -> None:
    failed = {**entry("oom", 4, size=1 << 30), "device_free": 4096, "frames": stack("forward")}
    del failed["addr"]
    recording, _report = read(snapshot([], [failed]))
    (row,) = recording.memory
    assert row["flags"] == MemoryFlags.OUT_OF_MEMORY
    assert (row["size_bytes"], row["address"], row["total_allocated_bytes"]) == (1 << 30, 0, 0)
    assert "out of memory" in [recording.event_name(event) for event in range(len(recording))]


def test_devices_are_apart(read: Read) -> None:
    recording, _report = read(
        snapshot(
            [segment(0, block(512), device=0), segment(0, block(256), device=3)],
            [entry("alloc", 0, 512, 64)], [], [], [entry("alloc", 0, 512, 32)],
        )
    )  # fmt: skip
    totals = {
        (int(row["device"]), int(row["size_bytes"])): int(row["total_allocated_bytes"])
        for row in recording.memory
    }
    assert totals == {(0, 512): 512, (0, 64): 576, (3, 256): 256, (3, 32): 288}
    assert [track.name for track in recording.tracks] == ["cuda:0 allocations", "cuda:3 allocations"]
    assert [track.device for track in recording.tracks] == [0, 3]


def test_annotations_are_scopes_and_moments(read: Read) -> None:
    marks = [
        {"stage": "START", "name": "step", "device": 0, "time_us": START_US + 1},
        {"stage": "START", "name": "left open", "device": 0, "time_us": START_US + 2},
        {"stage": "END", "name": "step", "device": 0, "time_us": START_US + 5},
        {"name": "mark", "device": 0, "time_us": START_US + 6},
    ]
    trace = [entry("alloc", 0, 0, 8), {**entry("user_defined", 9), "user_metadata": "epoch 2"}]
    recording, report = read(snapshot([], trace, annotations=marks))
    spans = {
        recording.event_name(row): (int(start) // 1000, int(end) // 1000)
        for row, (start, end) in enumerate(
            zip(recording.events.start_ns - START_NS, recording.events.end_ns - START_NS, strict=True)
        )
    }
    assert spans == {"step": (1, 5), "left open": (2, 9), "mark": (6, 6), "epoch 2": (9, 9)}
    # Without the scope they would be ops again once they went through OTLP.
    assert (recording.events.scope == USER_SCOPE).all()
    assert report.problems == {"begin_without_end": 1}


def test_old_snapshots_have_no_addresses_of_blocks_and_a_history(read: Read) -> None:
    old = segment(0, block(512), block(256, "inactive"), block(1024))
    for piece in old["blocks"]:
        del piece["address"], piece["requested_size"], piece["frames"]
    old["blocks"][2]["history"] = [{"addr": BASE + 768, "real_size": 1000, "frames": stack("forward")}]
    recording, report = read([old])  # torch.cuda.memory_snapshot() returns the segments alone
    assert (recording.memory["address"] - BASE).tolist() == [0, 768]
    assert recording.memory["size_bytes"].tolist() == [512, 1000]
    assert stack_of(recording, int(recording.memory["event"][1])) == ["forward"]
    assert report.problems == {}


def test_what_is_missing_is_counted_and_the_rest_is_read(read: Read) -> None:
    trace: list[Any] = [
        entry("alloc", 0, 0, 512),
        "no entry",
        {"action": "alloc", "addr": BASE + 4096, "size": 64},
        {"action": "alloc", "size": 32, "time_us": START_US + 3},
        {"action": "teleport", "time_us": START_US + 4},
        entry("alloc", 1, 8192, 16),
    ]
    recording, report = read({"device_traces": [trace]})
    assert recording.memory["size_bytes"].tolist() == [512, 64, 32, 16]
    assert np.all(np.diff(recording.memory["time_ns"]) > 0)
    assert report.problems == {
        "malformed_entry": 1,
        "no_time": 1,
        "no_address": 1,
        "unknown_action": 1,
        "time_runs_backwards": 1,
    }


class _Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch /tmp/never",))


@pytest.mark.parametrize(
    "value",
    [_Evil(), {"segments": [_Evil()]}, np.zeros(3), {1, 2}, bytearray(b"x"), Path("x"), {(1, 2): 3}],
    ids=["reduce", "reduce inside", "numpy", "set", "bytearray", "class", "tuple key"],
)
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_a_pickle_that_is_more_than_data_is_refused(read: Read, value: object, protocol: int) -> None:
    with pytest.raises(UnreadableInputError, match=r"is a Python pickle that is not read: (it names|a dict)"):
        read(value, protocol)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x80\x04]r\xff\xff\xff\x7f.", "it is damaged"),
        (b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7f.", "it ends before its end mark"),
        (b"\x80\x04", "it ends before its end mark"),
        (b"\x80\x04.", "it is damaged"),
        (b"\x80\x04X\x01\x00\x00\x00\xff.", "is a damaged Python pickle"),
        (pickle.dumps({"weights": [1, 2]}), "no snapshot"),
        (pickle.dumps("text"), "no snapshot"),
    ],
)
def test_a_damaged_pickle_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(content)
    with pytest.raises(UnreadableInputError, match=said):
        importers.load(path)


def test_a_list_that_holds_itself_is_no_loop(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(b"\x80\x04]\x94h\x00a.")
    recording, report = importers.load(path)
    assert len(recording.memory) == 0
    assert report.problems == {"malformed_entry": 1}


def test_shared_lists_do_not_multiply(tmp_path: Path) -> None:
    entries: list[Any] = [entry("alloc", 0, 0, 8)] * 1000
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": [entries] * 1000}))
    recording, report = importers.load(path)
    assert len(recording.memory) <= path.stat().st_size
    assert report.problems["entries_left_out"] > 0


@given(st.binary(max_size=200))
def test_no_bytes_do_harm(tmp_path_factory: pytest.TempPathFactory, noise: bytes) -> None:
    path = tmp_path_factory.mktemp("noise") / "snapshot.pickle"
    path.write_bytes(b"\x80\x04" + noise)
    with pytest.raises(UnreadableInputError):
        importers.load(path)


_ACTIONS = st.lists(st.tuples(st.sampled_from(["alloc", "free"]), st.integers(0, 5), st.integers(1, 1000)))


@given(_ACTIONS)
def test_running_totals_equal_a_ledger(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int, int]]
) -> None:
    live: dict[int, int] = {}
    trace: list[dict[str, Any]] = []
    expected: list[int] = []
    for place, (action, slot, size) in enumerate(actions):
        address = slot * 4096
        if action == "alloc" and address not in live:
            live[address] = size
            trace.append(entry("alloc", place, address, size))
        elif action == "free" and address in live:
            trace.append(entry("free_completed", place, address, live.pop(address)))
        else:
            continue
        expected.append(sum(live.values()))
    path = tmp_path_factory.mktemp("ledger") / "snapshot.pickle"
    path.write_bytes(pickle.dumps(snapshot([], trace)))
    recording, report = importers.load(path)
    assert recording.memory["total_allocated_bytes"].tolist() == expected
    assert report.problems == {}


@needs_data
def test_a_real_snapshot_agrees_with_another_reader() -> None:
    path = DATA / "memory" / "memory_forward_fp32_128.pickle"
    with path.open("rb") as file:
        theirs = pickle.load(file)
    recording, report = importers.load(path)
    assert report.problems == {}
    trace = theirs["device_traces"][0]
    sizes = recording.memory["size_bytes"]
    kept = [item for part in theirs["segments"] for item in part["blocks"] if item["state"] != "inactive"]
    before = sum(item["requested_size"] for item in kept)
    allocated = [item["size"] for item in trace if item["action"] == "alloc"]
    freed = [item["size"] for item in trace if item["action"] == "free_completed"]
    assert len(recording.memory) == len(kept) + len(allocated) + len(freed)
    assert int(sizes[sizes > 0].sum()) == before + sum(allocated)
    assert int(sizes[sizes < 0].sum()) == -sum(freed)
    assert int(recording.memory["total_allocated_bytes"][-1]) == before + sum(allocated) - sum(freed)
    facts = recording.metadata["cuda_memory_snapshot"]["devices"]["0"]
    for name, key in (
        ("reserved_bytes", "total_size"),
        ("allocated_bytes", "allocated_size"),
        ("active_bytes", "active_size"),
    ):
        assert facts[name] == sum(part[key] for part in theirs["segments"])
    live, highest = before, before
    for item in trace:
        live += {"alloc": 1, "free_completed": -1}.get(item["action"], 0) * item["size"]
        highest = max(highest, live)
    assert int(recording.memory["total_allocated_bytes"].max()) == highest
