"""Recordings of programs on a GPU, made by hand as Kineto records them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

import numpy as np

from otel_torchprof.importers.inputs_encoding import InputsEncoder
from otel_torchprof.recording import (
    DEVICE_DTYPE,
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    TrackKind,
)

US = 1_000
Argument: TypeAlias = "tuple[str, list[int]] | list[int] | None"  # a tensor: dtype and sizes


class DeviceProgram:
    """A thread and a stream. What is called comes one after the other; each call takes a microsecond."""

    def __init__(self, *, compute_major: int | None = None) -> None:
        self._builder = RecordingBuilder()
        self._thread = self._builder.add_track("main", process_id=1, thread_id=100)
        self._stream = self._builder.add_track("stream 7", TrackKind.STREAM, device=0)
        self._now_ns = 0
        self._stream_free_ns = 0
        self._steps = 0
        self._copies: list[tuple[int, int]] = []
        if compute_major is not None:
            self._builder.add_metadata({"kineto": {"deviceProperties": [{"computeMajor": compute_major}]}})

    def finish(self) -> Recording:
        """The recording."""
        rows = np.zeros(len(self._copies), dtype=DEVICE_DTYPE)
        rows["event"] = [event for event, _size in self._copies]
        rows["size_bytes"] = [size for _event, size in self._copies]
        self._builder.add_devices(rows)
        return self._builder.finish()

    @contextmanager
    def step(self) -> Iterator[None]:
        """A step of the program."""
        start_ns = self._now_ns
        yield
        self.pause(1)
        self._builder.add_step(start_ns, self._now_ns, self._steps, track=self._thread)
        self._steps += 1

    @contextmanager
    def op(self, name: str, *inputs: Argument, kind: EventKind = EventKind.OP) -> Iterator[None]:
        """An op, or another event of the thread, around what is called within."""
        start_ns = self._now_ns
        self.pause(1)
        yield
        self.pause(1)
        encoded = _encode(inputs) if inputs else b""
        self._builder.add_event(name, start_ns, self._now_ns, track=self._thread, kind=kind, inputs=encoded)

    def call(self, name: str, *inputs: Argument, kind: EventKind = EventKind.OP) -> None:
        """An op, or another event of the thread, with nothing in it."""
        with self.op(name, *inputs, kind=kind):
            pass

    def runtime(self, name: str, us: int = 1) -> int:
        """A call of the runtime; those that synchronize return when the stream has run dry."""
        start_ns = self._now_ns
        self._now_ns += us * US
        if "Synchronize" in name or name == "hipMemcpyWithStream":
            self._now_ns = max(self._now_ns, self._stream_free_ns)
        return self._builder.add_event(
            name, start_ns, self._now_ns, track=self._thread, kind=EventKind.RUNTIME
        )

    def kernel(self, name: str, us: int = 10) -> None:
        """The launch of a kernel, and the kernel."""
        self._work("cudaLaunchKernel", name, us, EventKind.KERNEL)

    def copy(self, name: str, size_bytes: int, us: int = 10) -> None:
        """The call for a copy, and the copy."""
        event = self._work("cudaMemcpyAsync", name, us, EventKind.MEMCPY)
        self._copies.append((event, size_bytes))

    def pause(self, us: int) -> None:
        """Time in which the thread does nothing that is recorded."""
        self._now_ns += us * US

    def _work(self, call: str, name: str, us: int, kind: EventKind) -> int:
        launch = self.runtime(call)
        start_ns = max(self._now_ns, self._stream_free_ns)
        self._stream_free_ns = start_ns + us * US
        work = self._builder.add_event(name, start_ns, self._stream_free_ns, track=self._stream, kind=kind)
        self._builder.add_link(launch, work, LinkType.LAUNCH)
        return work


def _encode(inputs: Sequence[Argument]) -> bytes:
    encoding = InputsEncoder(len(inputs))
    for value in inputs:
        if isinstance(value, tuple):
            dtype, sizes = value
            strides = [int(np.prod(sizes[place + 1 :], dtype=np.int64)) for place in range(len(sizes))]
            encoding.tensor(dtype, sizes, strides)
        elif value is None:
            encoding.none()
        else:
            encoding.begin_list(len(value))
            for item in value:
                encoding.value(item)
    return encoding.finish()
