"""The tracks of a trace, by what its events call their process and thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.chrome.schema import Event
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import RecordingBuilder, TrackKind

Numbers = npt.NDArray[np.int64]

_STREAM_PREFIX = "stream "
_UNSIGNED_MINUS_ONE = (1 << 32) - 1
_INT32 = 1 << 31


class TrackKey(NamedTuple):
    """A process and thread as one number or one text each, whatever JSON type they came as."""

    process: int | str
    thread: int | str
    on_device: bool


class _NumberedTracks(dict[tuple[Any, Any, bool], int]):
    """Remembers what a function returned; a look-up costs no call."""

    def __init__(self, number: Callable[[Any, Any, bool], int]) -> None:
        super().__init__()
        self._number = number

    def __missing__(self, fields: tuple[Any, Any, bool]) -> int:
        self[fields] = number = self._number(*fields)
        return number


class TrackTable:
    """Numbers tracks in order of appearance; they get their names, known last, in `add_to`."""

    def __init__(self, report: ImportReport) -> None:
        self._report = report
        self.numbered = _NumberedTracks(self._number)
        """What `number` returns, by its arguments."""
        self._by_key: dict[TrackKey, int] = {}
        self._places: list[tuple[Any, Any]] = []
        self._place_numbers: dict[tuple[Any, Any], int] = {}
        self._devices: dict[int, tuple[int, int, int]] = {}
        self._process_names: dict[int | str, str] = {}
        self._process_labels: dict[int | str, str] = {}
        self._thread_names: dict[tuple[int | str, int | str], str] = {}
        self.torch_thread_ids: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def number(self, process: Any, thread: Any, on_device: bool) -> int:
        """The number of a track. `"25738"` and 25738 are one thread, `"stream 7"` and 7 one stream."""
        return self.numbered[process, thread, on_device]

    def place(self, process: Any, thread: Any) -> int:
        """The number of a process and thread as events call them, for columns of them."""
        number = self._place_numbers.setdefault((process, thread), len(self._places))
        if number == len(self._places):
            self._places.append((process, thread))
        return number

    def at(self, places: Numbers, on_device: npt.NDArray[np.bool_]) -> Numbers:
        """The numbers of tracks, of columns of what `number` takes."""
        keys, first, inverse = np.unique(places * 2 + on_device, return_index=True, return_inverse=True)
        tracks = np.empty(len(keys), dtype=np.int64)
        for index in np.argsort(first).tolist():  # tracks are numbered in order of appearance
            key = int(keys[index])
            tracks[index] = self.number(*self._places[key >> 1], bool(key & 1))
        return tracks[inverse]

    def find(self, places: Numbers) -> Numbers:
        """The tracks that ends of flows mean: the stream of that number if there is one, else the thread.

        To be called when all events are known. A stream never shares its process number with a thread's, but
        for device 0 and Python frames that Kineto lists under process 0.
        """
        used, inverse = np.unique(places, return_inverse=True)
        tracks = [self._find(*self._places[place]) for place in used.tolist()]
        return np.array(tracks, dtype=np.int64)[inverse]

    def _find(self, process: Any, thread: Any) -> int:
        stream = self._by_key.get(TrackKey(_identity(process), _identity(thread), True))
        return self.number(process, thread, False) if stream is None else stream

    def _number(self, process: Any, thread: Any, on_device: bool) -> int:
        if process is None and thread is None:
            self._report.add_problem("no_process_or_thread")
        key = TrackKey(_identity(process), _identity(thread), on_device)
        return self._by_key.setdefault(key, len(self._by_key))

    def knows_device(self, number: int) -> bool:
        """Whether `set_device` was called for a track."""
        return number in self._devices

    def set_device(self, number: int, device: int, context: int, stream: int) -> None:
        """What the first event on a stream says about it; -1 = nothing."""
        self._devices[number] = (device, context, stream)

    def add_metadata(self, event: Event) -> None:
        """Takes a metadata event; later ones of the same kind win."""
        arguments = event.args
        process = _identity(event.pid)
        if arguments is None:
            self._report.add_problem("metadata_without_arguments")
        elif event.name == "process_name" and isinstance(arguments.name, str):
            self._process_names[process] = arguments.name
        elif event.name == "process_labels" and isinstance(arguments.labels, str):
            self._process_labels[process] = arguments.labels
        elif event.name == "thread_name" and isinstance(arguments.name, str):
            self._thread_names[process, _identity(event.tid)] = arguments.name

    def add_to(self, builder: RecordingBuilder) -> None:
        """Adds all tracks to the builder in the order of their numbers."""
        host = self._host_process()
        for key, number in self._by_key.items():
            name = self._thread_names.get((key.process, key.thread), "").strip()
            if key.on_device:
                device, context, stream = self._devices.get(number, (-1, -1, -1))
                builder.add_track(
                    name or f"{_STREAM_PREFIX}{key.thread}",
                    TrackKind.STREAM,
                    process_id=host,
                    thread_id=_stream_number(key.thread, stream),
                    device=device if device >= 0 else to_int(key.process, -1, -_INT32, _INT32 - 1),
                    context=context,
                )
            elif isinstance(key.process, int) and isinstance(key.thread, int):
                builder.add_track(
                    name,
                    TrackKind.THREAD,
                    process_id=key.process,
                    thread_id=key.thread,
                    torch_thread_id=self.torch_thread_ids.get(number, 0),
                )
            else:
                builder.add_track(
                    name or f"{key.process} {key.thread}".strip(),
                    TrackKind.OTHER,
                    process_id=key.process if isinstance(key.process, int) else 0,
                    thread_id=key.thread if isinstance(key.thread, int) else 0,
                )
        builder.set_process(max(host, 0), 0)

    def process_names(self) -> dict[str, str]:
        """Names of the processes that have tracks, by process id."""
        named = {str(key.process) for key in self._by_key}
        return {str(process): name for process, name in self._process_names.items() if str(process) in named}

    def _host_process(self) -> int:
        """The process most threads belong to: the one whose calls the streams work off."""
        threads = Counter(
            key.process
            for key in self._by_key
            if not key.on_device and isinstance(key.process, int) and isinstance(key.thread, int)
        )
        labelled = [process for process in threads if self._process_labels.get(process) == "CPU"]
        candidates = labelled or list(threads)
        return max(candidates, key=threads.__getitem__, default=0)


def _identity(value: Any) -> int | str:
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
        return value
    if isinstance(value, str):
        text = value.removeprefix(_STREAM_PREFIX).strip()
        number = to_int(text, -1)
        return number if str(number) == text else value[:256]
    return 0 if value is None else str(value)[:256]


def _stream_number(thread: int | str, stream: int) -> int:
    number = thread if isinstance(thread, int) else stream
    return -1 if number == _UNSIGNED_MINUS_ONE else number
