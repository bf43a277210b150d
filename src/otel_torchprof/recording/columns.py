"""The columns of a recording: read-only numpy arrays over native memory, which they keep alive."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from otel_torchprof._native import core


class EventColumns:
    """One row an event, ordered by track, then start, enclosing events first."""

    def __init__(self, native: core.Recording) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    @cached_property
    def start_ns(self) -> npt.NDArray[np.int64]:
        """Start, unix ns."""
        return self._native.start_ns

    @cached_property
    def end_ns(self) -> npt.NDArray[np.int64]:
        """End, unix ns; never before the start."""
        return self._native.end_ns

    @cached_property
    def name(self) -> npt.NDArray[np.uint32]:
        """Id of the name: see `Recording.name`."""
        return self._native.name

    @cached_property
    def track(self) -> npt.NDArray[np.uint32]:
        """Index into `Recording.tracks`."""
        return self._native.track

    @cached_property
    def kind(self) -> npt.NDArray[np.uint8]:
        """An `EventKind`."""
        return self._native.kind

    @cached_property
    def scope(self) -> npt.NDArray[np.uint8]:
        """at::RecordScope, of ops and user scopes."""
        return self._native.scope

    @cached_property
    def flags(self) -> npt.NDArray[np.uint16]:
        """`EventFlags`."""
        return self._native.flags

    @cached_property
    def sequence(self) -> npt.NDArray[np.int64]:
        """Autograd's sequence number, -1 = none."""
        return self._native.sequence

    @cached_property
    def forward_thread(self) -> npt.NDArray[np.uint32]:
        """Of a backward op: torch's number of the thread that ran the forward op, else 0."""
        return self._native.forward_thread

    @cached_property
    def end_track(self) -> npt.NDArray[np.uint32]:
        """With `EventFlags.OTHER_THREAD`: the track it ended on."""
        return self._native.end_track

    @cached_property
    def correlation(self) -> npt.NDArray[np.int64]:
        """Id that a launching call and its device work share, -1 = none; empty when no event has one."""
        return self._native.correlation

    @cached_property
    def error(self) -> npt.NDArray[np.uint32]:
        """Name id of the type of the exception that ended it, 0 = none; empty when none ended any."""
        return self._native.error


class LinkColumns:
    """Links that were recorded as such, one row a link."""

    def __init__(self, native: core.Recording) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self.from_event)

    @cached_property
    def from_event(self) -> npt.NDArray[np.uint64]:
        """Row of the event that links."""
        return self._native.link_from

    @cached_property
    def to_event(self) -> npt.NDArray[np.uint64]:
        """Row of the event linked to."""
        return self._native.link_to

    @cached_property
    def type(self) -> npt.NDArray[np.uint32]:
        """A `LinkType`."""
        return self._native.link_type

    def forward_backward_links(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
        """Rows of backward ops and, in the same places, of the forward ops that made their nodes.

        They follow from thread and sequence number and are computed at each call.
        """
        return self._native.forward_backward_links()
