"""nsys's and nvprof's databases, made here in the shape that those tools write."""

from __future__ import annotations

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.importers import UnreadableInputError, load
from otel_torchprof.recording import EventKind, LinkType, TrackKind
from tests.support.chrome_traces import links, row_of, times
from tests.support.sqlite_tables import CUPTI_PREFIX, Tables, write_tables

BASE = 1_700_000_000_000_000_000
THREAD = 77 << 24 | 78  # process 77, thread 78
OTHER_PROCESS = 99 << 24 | 99


def nsys_tables() -> Tables:
    work = {"deviceId": 0, "contextId": 1, "streamId": 7, "globalPid": 77 << 24}
    return {
        "StringIds": [
            {"id": 1, "value": "cudaLaunchKernel_v7000"},
            {"id": 2, "value": "void gemm<float>(int)"},
            {"id": 3, "value": "gemm"},
            {"id": 4, "value": "pt_main_thread"},
        ],
        "TARGET_INFO_SESSION_START_TIME": [{"utcEpochNs": BASE}],
        "ThreadNames": [{"nameId": 4, "priority": 0, "globalTid": THREAD}],
        CUPTI_PREFIX + "RUNTIME": [
            {"start": 10, "end": 20, "globalTid": THREAD, "correlationId": 5, "nameId": 1},
            {"start": 11, "end": 21, "globalTid": OTHER_PROCESS, "correlationId": 5, "nameId": 1},
        ],
        CUPTI_PREFIX + "KERNEL": [
            {**work, "start": 30, "end": 50, "correlationId": 5, "demangledName": 2, "shortName": 3,
             "gridX": 4, "gridY": 2, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1,
             "registersPerThread": 38, "staticSharedMemory": 1024, "dynamicSharedMemory": 512},
        ],
        CUPTI_PREFIX + "MEMCPY": [
            {**work, "start": 60, "end": 70, "correlationId": 6, "bytes": 4096, "copyKind": 1},
        ],
        CUPTI_PREFIX + "MEMSET": [{**work, "start": 80, "end": 90, "correlationId": 7, "bytes": 64}],
        "NVTX_EVENTS": [
            {"start": 5, "end": 25, "eventType": 59, "text": "forward", "textId": None, "globalTid": THREAD},
            {"start": 6, "end": 26, "eventType": 60, "text": None, "textId": 3, "globalTid": THREAD},
            {"start": 7, "end": None, "eventType": 34, "text": "mark", "textId": None, "globalTid": THREAD},
        ],
    }  # fmt: skip


def test_nsys(tmp_path: Path) -> None:
    recording, report = load(write_tables(tmp_path / "report.sqlite", nsys_tables()))
    assert report.format == "nsys"
    kernel = row_of(recording, "void gemm<float>(int)")
    columns = recording.events
    assert (columns.start_ns[kernel], columns.end_ns[kernel]) == (BASE + 30, BASE + 50)
    assert {recording.event_name(row): EventKind(columns.kind[row]) for row in range(len(recording))} == {
        "cudaLaunchKernel": EventKind.RUNTIME,
        "void gemm<float>(int)": EventKind.KERNEL,
        "Memcpy HtoD": EventKind.MEMCPY,
        "Memset": EventKind.MEMSET,
        "forward": EventKind.USER,
        "gemm": EventKind.USER,
    }
    ((launcher, work, kind),) = zip(
        recording.links.from_event, recording.links.to_event, recording.links.type, strict=True
    )
    assert (work, kind) == (kernel, LinkType.LAUNCH)
    assert recording.tracks[columns.track[launcher]].process_id == 77
    device = recording.devices[recording.devices["event"] == kernel][0]
    assert device["grid"].tolist() == [4, 2, 1]
    assert (device["registers"], device["shared_bytes"], device["stream"]) == (38, 1536, 7)
    copy = recording.devices[recording.devices["event"] == row_of(recording, "Memcpy HtoD")][0]
    assert copy["size_bytes"] == 4096
    assert [(track.name, track.kind, track.process_id, track.thread_id) for track in recording.tracks] == [
        ("pt_main_thread", TrackKind.THREAD, 77, 78),
        ("", TrackKind.THREAD, 99, 99),
        ("stream 7", TrackKind.STREAM, 77, 7),
    ]
    assert report.problems == {"launch_not_found": 2, "crossing_slices": 1}


def nvprof_tables() -> Tables:
    owner = struct.pack("<III", 77, 78, 0)
    return {
        "StringTable": [{"_id_": 1, "value": "gemm"}, {"_id_": 2, "value": "aten::mm, seq = 3"}],
        CUPTI_PREFIX + "RUNTIME": [
            {"cbid": 211, "start": 10, "end": 20, "processId": 77, "threadId": 78, "correlationId": 5},
            {"cbid": 430, "start": 21, "end": 22, "processId": 77, "threadId": -1, "correlationId": 6},
            {"cbid": 9999, "start": 23, "end": 24, "processId": 77, "threadId": 78, "correlationId": 7},
        ],
        CUPTI_PREFIX + "CONCURRENT_KERNEL": [
            {"start": 30, "end": 50, "correlationId": 5, "name": 1, "deviceId": 0, "streamId": 7, "gridX": 3},
            {"start": 60, "end": 70, "correlationId": 6, "name": 9, "deviceId": 0, "streamId": 7, "gridX": 3},
        ],
        CUPTI_PREFIX + "MARKER": [
            {"id": 1, "timestamp": 5, "flags": 2, "name": 2, "objectId": owner},
            {"id": 1, "timestamp": 25, "flags": 4, "name": 0, "objectId": owner},
            {"id": 2, "timestamp": 26, "flags": 2, "name": 2, "objectId": owner},
            {"id": 3, "timestamp": 27, "flags": 4, "name": 0, "objectId": owner},
        ],
    }


def test_nvprof(tmp_path: Path) -> None:
    recording, report = load(write_tables(tmp_path / "old.nvprof", nvprof_tables()))
    assert report.format == "nvprof"
    assert times(recording) == {
        "aten::mm, seq = 3": (5, 25),
        "cudaLaunchKernel": (10, 20),
        "CUDA runtime call 9999": (23, 24),
        "cudaLaunchKernelExC": (21, 22),
        "gemm": (30, 50),
        "unknown": (60, 70),
    }
    assert links(recording) == [
        ("cudaLaunchKernel", "gemm", LinkType.LAUNCH),
        ("cudaLaunchKernelExC", "unknown", LinkType.LAUNCH),
    ]
    assert {track.thread_id for track in recording.tracks if track.kind == TrackKind.THREAD} == {
        78,
        (1 << 32) - 1,
    }
    assert report.problems == {"begin_without_end": 1, "end_without_begin": 1}


@pytest.mark.parametrize("tables", [nsys_tables(), nvprof_tables()])
def test_tables_and_columns_come_and_go(tmp_path: Path, tables: Tables) -> None:
    for table in list(tables)[1:]:
        for column in list(tables[table][0]):
            fewer = {name: rows for name, rows in tables.items() if name != table}
            if len(tables[table][0]) > 1:
                fewer[table] = [
                    {key: value for key, value in row.items() if key != column} for row in tables[table]
                ]
            load(write_tables(tmp_path / f"{table}.{column}", fewer))


def test_nothing_is_written_beside_the_file(tmp_path: Path) -> None:
    path = write_tables(tmp_path / "report.sqlite", nsys_tables())
    path.chmod(0o400)
    load(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.sqlite"]


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = write_tables(tmp_path / "other.sqlite", {"people": [{"name": "x"}]})
    with pytest.raises(UnreadableInputError, match="neither a recording nor a trace"):
        load(path)


@given(st.data())
def test_damaged_databases(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = write_tables(tmp_path_factory.mktemp("db") / "report.sqlite", nsys_tables())
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(0, 20))):
        content[data.draw(st.integers(16, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(100, len(content)))])
    with suppress(UnreadableInputError):
        load(path)
