"""The database that nvprof wrote (`nvprof -o file`): CUDA calls and work, and markers."""

from __future__ import annotations

import struct
from typing import Any

from otel_torchprof.importers.cuda_rows import CudaRows, copy_name, kernel_fields, place_of
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.importers.sqlite_file import SqliteFile, has_table
from otel_torchprof.recording import EventKind, Recording

_STRINGS = "StringTable"
_PREFIX = "CUPTI_ACTIVITY_KIND_"
_WORK = ("start", "end", "deviceId", "contextId", "streamId", "correlationId")
_MARKER_START = 2
_MARKER_END = 4
_ID_MASK = (1 << 32) - 1
# CUpti_runtime_api_trace_cbid of the calls that matter most; the database has numbers only.
_RUNTIME_NAMES = {
    20: "cudaMalloc", 22: "cudaFree", 27: "cudaHostAlloc", 31: "cudaMemcpy", 41: "cudaMemcpyAsync",
    51: "cudaMemsetAsync", 131: "cudaStreamSynchronize", 135: "cudaEventRecord", 138: "cudaEventQuery",
    147: "cudaStreamWaitEvent", 165: "cudaDeviceSynchronize", 211: "cudaLaunchKernel",
    214: "cudaLaunchKernel", 311: "cudaGraphLaunch", 430: "cudaLaunchKernelExC", 431: "cudaLaunchKernelExC",
}  # fmt: skip


def recognizes(file: InputFile) -> bool:
    """An SQLite database with nvprof's table of strings."""
    return has_table(file, _STRINGS)


def load(file: InputFile, report: ImportReport) -> Recording:
    """Reads what tables there are; names that are missing become `unknown`."""
    rows = CudaRows(report)
    with SqliteFile(file.path, report) as database:
        strings = database.strings(_STRINGS, "_id_")
        processes = _read_calls(database, rows)
        # Kernels do not name their process; nvprof records one a file.
        process = min(processes, default=0)
        _read_work(database, strings, rows, process)
        _read_markers(database, strings, rows, report)
    return rows.finish()


def _read_calls(database: SqliteFile, rows: CudaRows) -> set[int]:
    processes: set[int] = set()
    for table, kind, what in (
        ("RUNTIME", EventKind.RUNTIME, "CUDA runtime call"),
        ("DRIVER", EventKind.DRIVER, "CUDA driver call"),
    ):
        for callback, start, end, process, thread, correlation in database.rows(
            _PREFIX + table, "cbid", "start", "end", "processId", "threadId", "correlationId"
        ):
            number = to_int(callback, -1, -1, (1 << 31) - 1)
            known = _RUNTIME_NAMES.get(number) if kind == EventKind.RUNTIME else None
            process_id = to_int(process, 0)
            processes.add(process_id)
            rows.add_call(
                kind,
                known or f"{what} {number}",
                (start, end),
                process_id,
                to_int(thread, 0) & _ID_MASK,
                to_int(correlation, -1, -1),
                number,
            )
    return processes


def _read_work(database: SqliteFile, strings: dict[int, str], rows: CudaRows, process: int) -> None:
    def add(kind: EventKind, name: str, work: list[Any], fields: dict[str, Any]) -> None:
        start, end, device, context, stream, correlation = work
        place = place_of(device, context, stream)
        rows.add_work(kind, name, (start, end), process, place, to_int(correlation, -1, -1), fields)

    for table in ("CONCURRENT_KERNEL", "KERNEL"):
        for *work, name, registers, static, dynamic, gx, gy, gz, bx, by, bz in database.rows(
            _PREFIX + table, *_WORK, "name", "registersPerThread", "staticSharedMemory",
            "dynamicSharedMemory", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
        ):  # fmt: skip
            fields = kernel_fields((gx, gy, gz), (bx, by, bz), registers, (static, dynamic))
            add(EventKind.KERNEL, strings.get(to_int(name, -1), "unknown"), work, fields)
    for *work, size, kind in database.rows(_PREFIX + "MEMCPY", *_WORK, "bytes", "copyKind"):
        add(EventKind.MEMCPY, copy_name(kind), work, {"size_bytes": to_int(size, -1)})
    for *work, size in database.rows(_PREFIX + "MEMSET", *_WORK, "bytes"):
        add(EventKind.MEMSET, "Memset", work, {"size_bytes": to_int(size, -1)})


def _read_markers(
    database: SqliteFile, strings: dict[int, str], rows: CudaRows, report: ImportReport
) -> None:
    """Pairs the start and end of each range by its id; only the start has a name."""
    starts: dict[Any, tuple[Any, Any, Any]] = {}
    ends: dict[Any, Any] = {}
    for marker, timestamp, flags, name, owner in database.rows(
        _PREFIX + "MARKER", "id", "timestamp", "flags", "name", "objectId"
    ):
        flag = to_int(flags, 0)
        if flag & _MARKER_START:
            starts[marker] = (timestamp, name, owner)
        elif flag & _MARKER_END:
            ends[marker] = timestamp
    for marker, (start, name, owner) in starts.items():
        if marker not in ends:
            report.add_problem("begin_without_end")
            continue
        text = strings.get(to_int(name, -1), "unknown")
        rows.add_range(text, (start, ends[marker]), *_process_and_thread(owner))
    report.add_problem("end_without_begin", sum(marker not in starts for marker in ends))


def _process_and_thread(owner: Any) -> tuple[int, int]:
    """CUpti_ActivityObjectKindId of a thread: its process and thread, 32 bits each."""
    if isinstance(owner, bytes) and len(owner) >= 8:
        process, thread = struct.unpack_from("<II", owner)
        return process, thread
    return 0, 0
