"""Rows of CUPTI's activity tables, as nvprof and nsys store them, on their way into a recording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.device_rows import DeviceRows
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import EventKind, LinkType, Recording, RecordingBuilder, TrackKind

USER_SCOPE = 7  # at::RecordScope::USER_SCOPE
_MAX_TIME_NS = (1 << 62) - 1
_INT32 = (1 << 31) - 1
_STREAM_OVERFLOW_NS = 1_000_000_000

# CUpti_ActivityMemcpyKind by value.
_COPY_KINDS = ("", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP")


class CudaRows:
    """Collects calls, device work and ranges, and links work to the calls that launched it.

    Correlation ids count within a process; times are ns.
    """

    def __init__(self, report: ImportReport) -> None:
        self.builder = RecordingBuilder()
        self._report = report
        self._draft = EventDraft()
        self._threads: dict[tuple[int, int], int] = {}
        self._streams: dict[tuple[int, int, int, int], int] = {}
        self._thread_names: dict[tuple[int, int], str] = {}
        self._calls: dict[tuple[int, int], int] = {}
        self._launched: list[tuple[int, tuple[int, int]]] = []
        self._devices = DeviceRows()
        self._tracks: list[tuple[str, TrackKind, dict[str, int]]] = []

    def name_thread(self, process: int, thread: int, name: str) -> None:
        """Names a thread, before or after its events."""
        self._thread_names[process, thread] = name

    def add_call(
        self, kind: EventKind, name: str, times: tuple[Any, Any], process: int, thread: int,
        correlation: int, callback: int = -1,
    ) -> None:  # fmt: skip
        """Adds a runtime or driver call."""
        row = self._add(kind, name, times, self._thread(process, thread), correlation)
        if row is None:
            return
        if correlation >= 0:
            # A driver call within a runtime call bears an id of its own; the first of one id launched.
            self._calls.setdefault((process, correlation), row)
        if callback >= 0:
            self._devices.add(row, callback_id=callback)

    def add_range(self, name: str, times: tuple[Any, Any], process: int, thread: int) -> None:
        """Adds a range that somebody marked."""
        self._add(EventKind.USER, name, times, self._thread(process, thread), -1, USER_SCOPE)

    def add_work(
        self, kind: EventKind, name: str, times: tuple[Any, Any], process: int,
        place: tuple[int, int, int], correlation: int, fields: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """Adds work on a device.

        Args:
            place: device, context and stream.
            fields: of DEVICE_DTYPE; what is None is not known.
        """
        row = self._add(kind, name, times, self._stream(process, place), correlation)
        if row is None:
            return
        device, context, stream = place
        self._devices.add(row, device=device, context=context, stream=stream, **fields)
        if correlation >= 0:
            self._launched.append((row, (process, correlation)))

    def finish(self) -> Recording:
        """Links, and returns the recording."""
        builder = self.builder
        for name, kind, fields in self._tracks:
            key = (fields["process_id"], fields["thread_id"])
            builder.add_track(
                self._thread_names.get(key, "") if kind == TrackKind.THREAD else name, kind, **fields
            )
        self._draft.add_to(builder)
        builder.add_devices(self._devices.table())
        pairs = [(self._calls[key], row) for row, key in self._launched if key in self._calls]
        builder.add_links([call for call, _row in pairs], [row for _call, row in pairs], LinkType.LAUNCH)
        self._report.add_problem("launch_not_found", len(self._launched) - len(pairs))
        if self._tracks:
            builder.set_process(max(self._tracks[0][2]["process_id"], 0), 0)
        recording, overruns = builder.finish_mended(rounding_ns=0, stream_ns=_STREAM_OVERFLOW_NS)
        self._report.add_problem("duration_overflows_stream", overruns.overflowed)
        self._report.add_problem("crossing_slices", overruns.crossing)
        return recording

    def _add(
        self, kind: EventKind, name: str, times: tuple[Any, Any], track: int, correlation: int, scope: int = 0
    ) -> int | None:
        start_ns, end_ns = (to_int(time, -1, 0, _MAX_TIME_NS) for time in times)
        if start_ns < 0:
            self._report.add_problem("no_time")
            return None
        if end_ns < start_ns:
            self._report.add_problem("no_duration" if end_ns < 0 else "negative_duration")
            end_ns = start_ns
        return self._draft.add(
            start_ns, end_ns, self.builder.add_name(name), track, kind, scope, correlation=correlation
        )

    def _thread(self, process: int, thread: int) -> int:
        number = self._threads.get((process, thread))
        if number is None:
            number = self._threads[process, thread] = len(self._tracks)
            self._tracks.append(("", TrackKind.THREAD, {"process_id": process, "thread_id": thread}))
        return number

    def _stream(self, process: int, place: tuple[int, int, int]) -> int:
        device, context, stream = place
        key = (process, device, context, stream)
        number = self._streams.get(key)
        if number is None:
            number = self._streams[key] = len(self._tracks)
            fields = {"process_id": process, "thread_id": stream, "device": device, "context": context}
            self._tracks.append((f"stream {stream}", TrackKind.STREAM, fields))
        return number


def copy_name(kind: object) -> str:
    """As `Memcpy HtoD`."""
    number = to_int(kind, 0)
    return f"Memcpy {_COPY_KINDS[number] if 0 <= number < len(_COPY_KINDS) else ''}".strip()


def place_of(device: object, context: object, stream: object) -> tuple[int, int, int]:
    """Device, context and stream as integers, -1 where they are not known."""
    return to_int(device, -1, -1, _INT32), to_int(context, -1, -1, _INT32), to_int(stream, -1)


def kernel_fields(
    grid: tuple[Any, ...], block: tuple[Any, ...], registers: Any, shared: tuple[Any, ...]
) -> dict[str, Any]:
    """The fields of a kernel's device row; shared memory is static and dynamic together."""
    shared_bytes = sum(to_int(size, 0, 0, _INT32) for size in shared)
    return {
        "grid": [to_int(size, 0, 0, _INT32) for size in grid],
        "block": [to_int(size, 0, 0, _INT32) for size in block],
        "registers": to_int(registers, -1, -1, _INT32),
        "shared_bytes": min(shared_bytes, _INT32),
    }
