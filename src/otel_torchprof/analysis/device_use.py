"""How devices were used: busy, idle, waiting for the host, and where the host waited for them."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.coverage import Coverage
from otel_torchprof.analysis.late_launches import devices_of, is_late, launch_ends_ns
from otel_torchprof.analysis.launches import CALL_KINDS, WORK_KINDS
from otel_torchprof.analysis.merged_stacks import nearest
from otel_torchprof.recording import EventKind, Recording

MAX_PAUSES = 8
COPY_KINDS = (EventKind.MEMCPY, EventKind.MEMSET)
# Calls that return when a device has done what it was given.
BLOCKING_CALL = re.compile(r"^(?:cu|cuda|hip)[A-Z]\w*Synchronize|^hipMemcpyWithStream$|^(?:cuda|hip)Memcpy$")
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Pause:
    """A time in which a device did nothing, unix ns."""

    start_ns: int
    duration_ns: int


@dataclass(frozen=True, eq=False)
class DeviceUse:
    """One device, from its first piece of work to its last. Times of work count each moment once."""

    number: int  # -1 = not known
    kernels: int
    copies: int  # and fills
    span_ns: int
    busy_ns: int
    kernel_ns: int
    copy_ns: int
    launch_wait_ns: int
    """Of the idle time: until the call was over that launched what ran next, where it was not over before."""
    launched_kernels: int
    """Those whose call is known."""
    late_kernels: int
    """Of these: their device had run dry when the call was over, see `is_late`."""
    pauses: int
    longest_pauses: list[Pause]

    @property
    def idle_ns(self) -> int:
        """When it did nothing."""
        return self.span_ns - self.busy_ns


@dataclass(frozen=True, slots=True)
class BlockingCalls:
    """Calls of one name, from the same event, in which a thread waited for a device."""

    call: str
    caller: str  # empty = none
    calls: int
    total_ns: int
    longest_ns: int


def device_uses(recording: Recording) -> list[DeviceUse]:
    """Each device that worked, by its number."""
    work = np.flatnonzero(np.isin(recording.events.kind, WORK_KINDS))
    device = devices_of(recording, work)
    launched_ns, late = launch_ends_ns(recording), is_late(recording)
    return [
        _device_use(recording, int(number), work[device == number], launched_ns, late)
        for number in np.unique(device)
    ]


def blocking_rows(recording: Recording) -> Numbers:
    """Calls in which threads waited for devices.

    A thread that does nothing else, as a recorder's when it ends, keeps nobody waiting.
    """
    events, kind = recording.events, recording.events.kind
    is_call = np.isin(kind, CALL_KINDS)
    used = np.unique(events.name[is_call]).tolist()
    waits = [name for name in used if BLOCKING_CALL.match(recording.name(name))]
    working_tracks = np.unique(events.track[~is_call & ~np.isin(kind, WORK_KINDS)])
    return np.flatnonzero(is_call & np.isin(events.name, waits) & np.isin(events.track, working_tracks))


def blocking_calls(recording: Recording) -> list[BlockingCalls]:
    """Where threads waited for devices, the longest in total first."""
    events = recording.events
    rows = blocking_rows(recording)
    caller = nearest(recording.tree().parent, ~np.isin(events.kind, CALL_KINDS))[rows]
    duration_ns = events.end_ns[rows] - events.start_ns[rows]
    found: dict[tuple[str, str], list[int]] = {}
    for row, at, lasted_ns in zip(rows.tolist(), caller.tolist(), duration_ns.tolist(), strict=True):
        names = (recording.event_name(row), recording.event_name(at) if at >= 0 else "")
        found.setdefault(names, []).append(lasted_ns)
    calls = [
        BlockingCalls(call, caller_name, len(lasted), sum(lasted), max(lasted))
        for (call, caller_name), lasted in found.items()
    ]
    return sorted(calls, key=lambda one: (-one.total_ns, one.call, one.caller))


def _device_use(
    recording: Recording, number: int, rows: Numbers, launched_ns: Numbers, late: npt.NDArray[np.bool_]
) -> DeviceUse:
    kind = recording.events.kind[rows]
    is_kernel, is_copy = kind == EventKind.KERNEL, np.isin(kind, COPY_KINDS)
    busy = _cover(recording, rows)
    starts_ns, lengths_ns = busy.end_ns[:-1], busy.start_ns[1:] - busy.end_ns[:-1]
    longest = np.argsort(-lengths_ns, kind="stable")[:MAX_PAUSES]
    return DeviceUse(
        number=number,
        kernels=int(is_kernel.sum()),
        copies=int(is_copy.sum()),
        span_ns=int(busy.end_ns[-1] - busy.start_ns[0]),
        busy_ns=busy.total_ns,
        kernel_ns=_cover(recording, rows[is_kernel]).total_ns,
        copy_ns=_cover(recording, rows[is_copy]).total_ns,
        launch_wait_ns=_launch_wait_ns(recording, rows, busy, launched_ns),
        launched_kernels=int((launched_ns[rows[is_kernel]] >= 0).sum()),
        late_kernels=int(late[rows[is_kernel]].sum()),
        pauses=len(lengths_ns),
        longest_pauses=[Pause(int(starts_ns[gap]), int(lengths_ns[gap])) for gap in longest.tolist()],
    )


def _launch_wait_ns(recording: Recording, rows: Numbers, busy: Coverage, launched_ns: Numbers) -> int:
    """How long a device that had done all it was given waited to be given more."""
    order = rows[np.argsort(recording.events.start_ns[rows], kind="stable")]
    first = order[np.searchsorted(recording.events.start_ns[order], busy.start_ns[1:])]
    waited_until_ns = np.minimum(launched_ns[first], busy.start_ns[1:])
    return int(np.maximum(waited_until_ns - busy.end_ns[:-1], 0).sum())


def _cover(recording: Recording, rows: Numbers) -> Coverage:
    return Coverage(recording.events.start_ns[rows], recording.events.end_ns[rows])
