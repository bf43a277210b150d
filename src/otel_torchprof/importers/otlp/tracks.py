"""The tracks of spans: threads and streams by their attributes, else one for each trace of a service."""

from __future__ import annotations

from dataclasses import dataclass

from otel_torchprof import semconv
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.otlp.spans import Attributes
from otel_torchprof.recording import RecordingBuilder, TrackKind

_INT32 = (1 << 31) - 1
_UINT64 = (1 << 64) - 1


@dataclass(slots=True)
class _Track:
    kind: TrackKind
    name: str
    process_id: int
    thread_id: int = 0
    device: int = -1
    torch_thread_id: int = 0


class SpanTracks:
    """Numbers tracks in order of appearance."""

    def __init__(self) -> None:
        self._tracks: list[_Track] = []
        self._numbers: dict[tuple[object, ...], int] = {}

    def thread(self, process: int, attributes: Attributes) -> int:
        """The track of a thread; also remembers what the span says of it."""
        thread = to_int(attributes.get(semconv.THREAD_ID), 0)
        name = attributes.get(semconv.THREAD_NAME)
        # No thread has the id 0: it stands for what traces put beside threads, on lines of several names.
        line = name if thread == 0 and isinstance(name, str) else ""
        key = ("thread", process, thread, line)
        number = self._number(key, _Track(TrackKind.THREAD, "", process, thread))
        track = self._tracks[number]
        if isinstance(name, str):
            track.name = track.name or name
        track.torch_thread_id = track.torch_thread_id or to_int(
            attributes.get(semconv.AUTOGRAD_THREAD_ID), 0, 0, _UINT64
        )
        return number

    def stream(self, process: int, attributes: Attributes) -> int:
        """The track of a stream of a device."""
        device = to_int(attributes.get(semconv.CUDA_DEVICE_INDEX), -1, -1, _INT32)
        stream = to_int(attributes.get(semconv.CUDA_STREAM_ID), -1)
        track = _Track(TrackKind.STREAM, f"stream {stream}", process, stream, device)
        return self._number(("stream", process, device, stream), track)

    def of_trace(self, process: int, service: str, trace_id: bytes) -> int:
        """The track of all spans of a trace in one service that do not say where they ran."""
        track = _Track(TrackKind.OTHER, service or "spans", process)
        return self._number(("trace", process, service, trace_id), track)

    def torch_thread_id(self, number: int) -> int:
        """Torch's number of the thread of a track, 0 = not known."""
        return self._tracks[number].torch_thread_id

    def add_to(self, builder: RecordingBuilder) -> None:
        """Adds all tracks in the order of their numbers."""
        for track in self._tracks:
            builder.add_track(
                track.name,
                track.kind,
                process_id=track.process_id,
                thread_id=track.thread_id,
                torch_thread_id=track.torch_thread_id,
                device=track.device,
            )
        if self._tracks:
            builder.set_process(self._tracks[0].process_id, 0)

    def _number(self, key: tuple[object, ...], track: _Track) -> int:
        number = self._numbers.setdefault(key, len(self._tracks))
        if number == len(self._tracks):
            self._tracks.append(track)
        return number
