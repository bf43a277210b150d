"""What `nsys export --type sqlite` writes: CUDA calls and work, NVTX ranges, threads."""

from __future__ import annotations

from typing import Any

from otel_torchprof.importers.cuda_rows import CudaRows, copy_name, kernel_fields, place_of
from otel_torchprof.importers.input_file import InputFile
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.importers.sqlite_file import SqliteFile, has_table
from otel_torchprof.recording import EventKind, Recording

_STRINGS = "StringIds"
_PREFIX = "CUPTI_ACTIVITY_KIND_"
_WORK = ("start", "end", "globalPid", "deviceId", "contextId", "streamId", "correlationId")
# NvtxEventType: ranges that were pushed and popped, and ranges that were started and ended.
_NVTX_RANGES = {59, 60}


def recognizes(file: InputFile) -> bool:
    """An SQLite database with nsys's table of strings."""
    return has_table(file, _STRINGS)


def load(file: InputFile, report: ImportReport) -> Recording:
    """Reads what tables there are; names that are missing become `unknown`."""
    rows = CudaRows(report)
    with SqliteFile(file.path, report) as database:
        strings = database.strings(_STRINGS, "id")
        base_ns = next(
            (to_int(time, 0) for (time,) in database.rows("TARGET_INFO_SESSION_START_TIME", "utcEpochNs")), 0
        )
        if base_ns == 0:
            report.notes.append("The session's start is not known: times count from it.")
        reader = _Reader(database, strings, base_ns, rows)
        reader.read_threads()
        reader.read_calls()
        reader.read_work()
        reader.read_ranges()
    return rows.finish()


class _Reader:
    def __init__(self, database: SqliteFile, strings: dict[int, str], base_ns: int, rows: CudaRows) -> None:
        self._database = database
        self._strings = strings
        self._base_ns = base_ns
        self._rows = rows

    def read_threads(self) -> None:
        for name, thread in self._database.rows("ThreadNames", "nameId", "globalTid"):
            self._rows.name_thread(*_process_and_thread(thread), self._string(name, ""))

    def read_calls(self) -> None:
        for table, kind in (("RUNTIME", EventKind.RUNTIME), ("DRIVER", EventKind.DRIVER)):
            for start, end, thread, correlation, name in self._database.rows(
                _PREFIX + table, "start", "end", "globalTid", "correlationId", "nameId"
            ):
                self._rows.add_call(
                    kind,
                    self._string(name).partition("_v")[0],
                    self._times(start, end),
                    *_process_and_thread(thread),
                    to_int(correlation, -1, -1),
                )

    def read_work(self) -> None:
        for *work, demangled, short, graph, node, registers, static, dynamic, gx, gy, gz, bx, by, bz in (
            self._database.rows(
                _PREFIX + "KERNEL", *_WORK, "demangledName", "shortName", "graphId", "graphNodeId",
                "registersPerThread", "staticSharedMemory", "dynamicSharedMemory",
                "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
            )
        ):  # fmt: skip
            fields = kernel_fields((gx, gy, gz), (bx, by, bz), registers, (static, dynamic))
            fields |= {"graph_id": to_int(graph, -1), "graph_node_id": to_int(node, -1)}
            name = self._string(demangled if demangled is not None else short)
            self._add_work(EventKind.KERNEL, name, work, fields)
        for *work, size, kind in self._database.rows(_PREFIX + "MEMCPY", *_WORK, "bytes", "copyKind"):
            self._add_work(EventKind.MEMCPY, copy_name(kind), work, {"size_bytes": to_int(size, -1)})
        for *work, size in self._database.rows(_PREFIX + "MEMSET", *_WORK, "bytes"):
            self._add_work(EventKind.MEMSET, "Memset", work, {"size_bytes": to_int(size, -1)})

    def read_ranges(self) -> None:
        for start, end, kind, text, text_id, thread in self._database.rows(
            "NVTX_EVENTS", "start", "end", "eventType", "text", "textId", "globalTid"
        ):
            if kind in _NVTX_RANGES:
                name = text if isinstance(text, str) else self._string(text_id)
                self._rows.add_range(name, self._times(start, end), *_process_and_thread(thread))

    def _add_work(self, kind: EventKind, name: str, work: list[Any], fields: dict[str, Any]) -> None:
        start, end, process, device, context, stream, correlation = work
        self._rows.add_work(
            kind,
            name,
            self._times(start, end),
            _process_and_thread(process)[0],
            place_of(device, context, stream),
            to_int(correlation, -1, -1),
            fields,
        )

    def _string(self, string_id: Any, otherwise: str = "unknown") -> str:
        return self._strings.get(to_int(string_id, -1), otherwise)

    def _times(self, start: Any, end: Any) -> tuple[Any, Any]:
        return (
            start + self._base_ns if isinstance(start, int) else None,
            end + self._base_ns if isinstance(end, int) else None,
        )


def _process_and_thread(global_id: Any) -> tuple[int, int]:
    number = to_int(global_id, 0)
    return number >> 24 & 0xFFFFFF, number & 0xFFFFFF
