"""Events of Chrome traces, each oddity by itself: what becomes of it, and under which name it is counted."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.exporters import export
from otel_torchprof.importers.chrome.times import microseconds_to_ns, times_column
from otel_torchprof.recording import EventFlags, EventKind, TrackKind
from tests.support.chrome_rules import of_phase, read_strictly
from tests.support.chrome_traces import complete, import_events, import_text, row_of, times

EPOCH_US = 1_695_835_543_008_415


@pytest.mark.parametrize(
    ("ts", "ns"),
    [
        ("0", 0),
        ("1.5", 1_500),
        (f"{EPOCH_US}.123", EPOCH_US * 1000 + 123),
        ("1212075548353.304", 1212075548353304),
        ("1e3", 1_000_000),
        ("-2.25", -2_250),
        ('"17.001"', 17_001),
        ("0.0004", 0),
    ],
)
def test_times_are_kept_to_the_nanosecond(tmp_path: Path, ts: str, ns: int) -> None:
    text = f'[{{"ph":"X","name":"a","pid":1,"tid":1,"ts":{ts},"dur":2.345}}]'
    recording, report = import_text(tmp_path, text)
    assert times(recording) == {"a": (ns, ns + 2_345)}
    assert not report.problems


def test_times_count_from_the_base_of_the_trace(tmp_path: Path) -> None:
    base = 1_751_410_836_000_000_000
    recording, _ = import_events(tmp_path, [complete("a", 7, 1)], baseTimeNanoseconds=base)
    assert times(recording) == {"a": (base + 7_000, base + 8_000)}


@given(st.integers(-(10**17), 10**17))
def test_every_time_of_three_decimals_is_exact(ns: int) -> None:
    text = str(Decimal(ns).scaleb(-3))
    assert microseconds_to_ns(text) == ns
    assert times_column([text, 1]).tolist() == [ns, 1_000]


@pytest.mark.parametrize(
    ("fields", "problem", "span"),
    [
        ({"dur": -5}, "negative_duration", (10_000, 10_000)),
        ({"dur": None}, "no_duration", (10_000, 10_000)),
        ({"ts": None}, "no_time", None),
        ({"ts": "soon"}, "bad_time", None),
        ({"ts": 10**40}, "bad_time", None),
        ({"dur": 10**15}, None, (10_000, 10_000 + 10**18)),
    ],
)
def test_bad_times(
    tmp_path: Path, fields: dict[str, object], problem: str | None, span: tuple[int, int] | None
) -> None:
    event = {**complete("a", 10, 1), **fields}
    recording, report = import_events(tmp_path, [event])
    assert times(recording) == ({"a": span} if span else {})
    assert dict(report.problems) == ({problem: 1} if problem else {})


def test_a_zero_among_absolute_times_is_no_time(tmp_path: Path) -> None:
    events = [complete("a", EPOCH_US, 1), complete("b", 0, 1), complete("c", 0.0, 1)]
    recording, report = import_events(tmp_path, events)
    assert list(times(recording)) == ["a"]
    assert report.problems == {"zero_time": 2}


def test_one_thread_under_two_json_types_is_one_track(tmp_path: Path) -> None:
    events = [complete("a", 0, 1, tid="25738"), complete("b", 2, 1, tid=25738)]
    recording, _ = import_events(tmp_path, events)
    assert [(track.kind, track.thread_id) for track in recording.tracks] == [(TrackKind.THREAD, 25738)]


def test_streams_threads_and_texts_are_tracks_of_their_own(tmp_path: Path) -> None:
    kernel = complete("k", 0, 1, cat="kernel", pid=0, tid=0, args={"device": 0, "stream": 0, "context": 1})
    events = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 1, "args": {"name": "thread 1 (python)"}},
        complete("a", 0, 1),
        kernel,
        complete("old", 0, 1, cat="Kernel", pid=0, tid="stream 7", args={"stream": 7}),
        complete("python", 0, 1, cat="python_function", pid=0, tid=0),
        complete("span", 0, 1, cat="Trace", pid="Spans", tid="PyTorch Profiler"),
        complete("nowhere", 0, 1, cat="x", pid="", tid=-1),
    ]
    recording, _ = import_events(tmp_path, events)
    assert [(track.name, track.kind, track.device, track.thread_id) for track in recording.tracks] == [
        ("thread 1 (python)", TrackKind.THREAD, -1, 1),
        ("stream 0", TrackKind.STREAM, 0, 0),
        ("stream 7", TrackKind.STREAM, 0, 7),
        ("", TrackKind.THREAD, -1, 0),
        ("Spans PyTorch Profiler", TrackKind.OTHER, -1, 0),
        ("-1", TrackKind.OTHER, -1, -1),
    ]


def test_kinds_by_category_and_name(tmp_path: Path) -> None:
    kinds = {
        ("cpu_op", "aten::add"): EventKind.OP,
        ("Operator", "aten::mul"): EventKind.OP,
        ("Operator", "ProfilerStep#3"): EventKind.USER,
        ("user_annotation", "forward"): EventKind.USER,
        ("python_function", "a.py(1): f"): EventKind.PYTHON,
        ("python_function", "nn.Module: Linear_0"): EventKind.MODULE,
        ("python_function", "<built-in method add>"): EventKind.PYTHON_C,
        ("Runtime", "cudaLaunchKernel"): EventKind.RUNTIME,
        ("cuda_driver", "cuLaunchKernel"): EventKind.DRIVER,
        ("mtia_ccp_events", "gemm"): EventKind.KERNEL,
        ("Memcpy", "Memcpy HtoD (Pageable -> Device)"): EventKind.MEMCPY,
        ("gpu_memset", "Memset (Device)"): EventKind.MEMSET,
        ("cuda_sync", "Stream Sync"): EventKind.SYNC,
        ("gpu_user_annotation", "on the device"): EventKind.ANNOTATION,
        ("overhead", "Command Buffer Full"): EventKind.OVERHEAD,
        ("something else", "x"): EventKind.OTHER,
    }
    events = [complete(name, index, 1, cat=cat) for index, (cat, name) in enumerate(kinds)]
    recording, _ = import_events(tmp_path, events)
    found = {
        recording.event_name(row): EventKind(recording.events.kind[row]) for row in range(len(recording))
    }
    assert found == {name.removeprefix("a.py(1): "): kind for (_cat, name), kind in kinds.items()}


def test_the_place_of_a_function_is_its_overload_name(tmp_path: Path) -> None:
    cat = "python_function"
    events = [
        complete("torch/nn/modules/module.py(1501): _call_impl", 0, 1, cat=cat, args={"Python id": 1}),
        complete("<built-in function len>", 2, 1, cat=cat),
        complete("<built-in method add of type object at 0x7f00>", 4, 1, cat=cat),
        complete("a(1): b(2): c", 6, 1, cat=cat),
        complete("no place", 8, 1, cat=cat),
        complete("a.py(1): f", 10, 1, cat="cpu_op"),
    ]
    recording, _ = import_events(tmp_path, events)
    names = [int(name) for name in recording.events.name]
    assert [(recording.name(name), recording.overload_name(name)) for name in names] == [
        ("_call_impl", "torch/nn/modules/module.py:1501"),
        ("len", ""),
        ("<built-in method add of type object at 0x7f00>", ""),
        ("c", "a(1): b:2"),
        ("no place", ""),
        ("a.py(1): f", ""),
    ]


def test_steps(tmp_path: Path) -> None:
    events = [complete(f"ProfilerStep#{n}", n * 10, 9, cat="user_annotation") for n in (4, 2, 3)]
    on_device = complete("ProfilerStep#2", 21, 5, cat="gpu_user_annotation", pid=0, tid=7)
    recording, report = import_events(tmp_path, [*events, on_device])
    assert [(step.number, step.start_ns, step.end_ns) for step in recording.steps] == [
        (2, 20_000, 29_000),
        (3, 30_000, 39_000),
        (4, 40_000, 49_000),
    ]
    assert report.counts["steps"] == 3


def test_names_are_kept_whole_up_to_their_bound(tmp_path: Path) -> None:
    name = 'é✓ "quoted" \\ \t\n' + "n" * 5_000
    recording, report = import_events(tmp_path, [complete(name, 0, 1), complete("x" * 70_000, 2, 1)])
    assert recording.event_name(0) == name
    assert len(recording.event_name(1)) == 65_536
    assert report.problems == {"name_cut": 1}


def test_instants_and_counters_and_memory(tmp_path: Path) -> None:
    memory = {"Device Type": 1, "Device Id": 0, "Bytes": -512, "Addr": 128184607182336,
              "Total Allocated": 91505152, "Total Reserved": 121634816}  # fmt: skip
    events = [
        complete("a", 0, 9),
        {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 3.5, "s": "t", "args": memory},
        {"ph": "i", "name": "mark", "pid": 1, "tid": 1, "ts": 4, "s": "g"},
        {"ph": "C", "name": "load", "pid": 1, "ts": 5, "args": {"cpu": 0.5, "gpu": 7, "text": "x"}},
    ]
    recording, report = import_events(tmp_path, events)
    (record,) = recording.memory
    assert (record["time_ns"], record["address"], record["size_bytes"]) == (3_500, 128184607182336, -512)
    assert (record["total_allocated_bytes"], record["total_reserved_bytes"]) == (91505152, 121634816)
    assert (record["device"], record["device_type"]) == (0, 1)
    mark = row_of(recording, "mark")
    assert recording.events.flags[mark] == EventFlags.INSTANT
    counters = [
        (int(c["time_ns"]), recording.name(c["name"]), recording.overload_name(c["name"]), float(c["value"]))
        for c in recording.counters
    ]
    assert counters == [(5_000, "load", "cpu", 0.5), (5_000, "load", "gpu", 7.0)]
    assert report.counts["memory_events"] == 1
    assert report.counts["counters"] == 2


def test_what_cupti_read_over_a_kernel_stays_with_it(tmp_path: Path) -> None:
    event = complete("gemm", 1, 2, cat="cuda_profiler_range", pid=0, tid=0, args={"flop.sum": 12})
    recording, _ = import_events(tmp_path, [complete("a", 0, 9), event])
    (counter,) = recording.counters
    row = row_of(recording, "gemm")
    assert counter["event"] == row
    # Not on a thread, where it would pass for an op: on the device, and no kernel, whose time it is not.
    assert recording.events.kind[row] == EventKind.ANNOTATION
    track = recording.tracks[recording.events.track[row]]
    assert (track.kind, track.device) == (TrackKind.STREAM, 0)
    export(recording, tmp_path / "again.json")
    (again,) = of_phase(read_strictly(tmp_path / "again.json"), "X", "cuda_profiler_range")
    assert (again["name"], again["pid"], again["args"]) == ("gemm", 0, {"flop.sum": 12})
    assert recording.name(counter["name"]) == "flop.sum"


def test_device_arguments_of_any_json_type(tmp_path: Path) -> None:
    arguments = [
        {"device": 0, "context": 1, "stream": 7, "correlation": 5, "grid": [4, 2, 1], "block": [128, 1, 1],
         "registers per thread": 38, "shared memory": 1024, "blocks per SM": 0.25, "External id": 3},
        {"device": "0", "stream": 4294967295, "bytes": "2560", "grid": "[4, 2]", "external id": 9},
        {"stream": "0x7", "bytes": [1], "grid": {"x": 1}, "block": [-1, 1, 1], "blocks per SM": "many"},
    ]  # fmt: skip
    events = [
        complete(f"k{index}", index * 10, 5, cat="kernel", pid=0, tid=7, args=args)
        for index, args in enumerate(arguments)
    ]
    recording, _ = import_events(tmp_path, events)
    first, second, third = recording.devices
    assert first["grid"].tolist() == [4, 2, 1]
    assert first["block"].tolist() == [128, 1, 1]
    assert (first["registers"], first["shared_bytes"], first["external_id"]) == (38, 1024, 3)
    assert (first["context"], first["stream"], float(first["blocks_per_sm"])) == (1, 7, 0.25)
    assert (second["stream"], second["size_bytes"], second["external_id"]) == (-1, 2560, 9)
    assert second["grid"].tolist() == [4, 2, 1]
    assert (third["stream"], third["size_bytes"]) == (7, -1)
    assert third["grid"].tolist() == [0, 0, 0]
    assert recording.events.correlation.tolist() == [5, -1, -1]


def test_metadata_is_an_allow_list(tmp_path: Path) -> None:
    recording, _ = import_events(
        tmp_path,
        [complete("a", 0, 1), {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}}],
        schemaVersion=1,
        username="alice",
        hostname="node17",
        environment={"AWS_SECRET": "x"},
        argv=["train.py", "--token=x"],
        traceName="/home/alice/trace.json",
        deviceProperties=[{"id": 0, "name": "H100", "serial": "s3cret"}],
        distributedInfo={"rank": 3, "world_size": 8, "backend": "nccl", "master": "node17"},
    )
    assert dict(recording.metadata) == {
        "rank": 3,
        "world_size": 8,
        "process_names": {"1": "python"},
        "kineto": {
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": "H100"}],
            "distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"},
        },
    }


def test_a_child_that_outlasts_its_parent_by_rounding_is_cut(tmp_path: Path) -> None:
    events = [complete("parent", 0, 10), complete("child", 2, 9)]
    recording, report = import_events(tmp_path, events, schemaVersion=1)
    assert times(recording) == {"parent": (0, 10_000), "child": (2_000, 10_000)}
    assert report.problems == {"end_rounded": 1}


def test_slices_that_really_cross_are_kept_and_counted(tmp_path: Path) -> None:
    recording, report = import_events(tmp_path, [complete("a", 0, 10), complete("b", 5, 10)])
    assert times(recording) == {"a": (0, 10_000), "b": (5_000, 15_000)}
    assert report.problems == {"crossing_slices": 1}


def test_a_kernel_that_lasts_seconds_into_the_next_is_cut(tmp_path: Path) -> None:
    stream = {"cat": "kernel", "pid": 0, "tid": 7}
    events = [complete("wrong", 0, 5_000_000, **stream), complete("next", 100, 20, **stream)]
    recording, report = import_events(tmp_path, events)
    assert times(recording) == {"wrong": (0, 100_000), "next": (100_000, 120_000)}
    assert report.problems == {"duration_overflows_stream": 1, "launch_not_found": 2}
