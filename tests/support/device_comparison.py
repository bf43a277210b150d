"""The device work of one program in two recordings, each of a run of its own: what of it is the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from statistics import median
from typing import TypeAlias

from otel_torchprof.analysis.event_names import short_kernel_name
from otel_torchprof.recording import EventKind, Recording
from tests.support.device_structure import callers, work_rows

# Shorter, the ticks of the device's clock and what else goes on there are a good part of it.
LONG_ENOUGH_NS = 10_000
# Of fewer, a median is one run's chance.
MIN_PIECES = 9

Work: TypeAlias = "Counter[tuple[str, str]]"


def work(recording: Recording) -> Work:
    """Kind and name of all work."""
    kinds = recording.events.kind
    return Counter((EventKind(kinds[row]).name, _name(recording, row)) for row in work_rows(recording))


def _name(recording: Recording, row: int) -> str:
    name = recording.event_name(row)
    # Recorders cut the names of kernels, not of copies: `Memcpy HtoD (Pinned -> Device)`.
    return short_kernel_name(name) if recording.events.kind[row] == EventKind.KERNEL else name


def differences(ours: Recording, theirs: Recording) -> str:
    """What one has and the other has not, a line each; empty where the work is the same."""
    mine, other = work(ours), work(theirs)
    return "\n".join(
        f"{kind} {name}: {mine[kind, name]} in ours, {other[kind, name]} in the other"
        for kind, name in sorted(mine.keys() | other.keys())
        if mine[kind, name] != other[kind, name]
    )


def unlinked(recording: Recording) -> Work:
    """Work that no runtime or driver call is known to have launched."""
    linked = callers(recording)
    kinds = recording.events.kind
    return Counter(
        (EventKind(kinds[row]).name, _name(recording, row))
        for row in work_rows(recording)
        if row not in linked
    )


@dataclass(frozen=True)
class Duration:
    """The median duration of one kind of work in both."""

    name: str
    pieces: int
    ours_ns: float
    theirs_ns: float

    @property
    def deviation(self) -> float:
        """By which part ours differs."""
        return self.ours_ns / self.theirs_ns - 1

    @property
    def is_comparable(self) -> bool:
        """Whether it is long enough, and there often enough, that two runs should agree."""
        return self.pieces >= MIN_PIECES and min(self.ours_ns, self.theirs_ns) >= LONG_ENOUGH_NS

    def __str__(self) -> str:
        ours_us, theirs_us = self.ours_ns / 1000, self.theirs_ns / 1000
        return f"{ours_us:9.1f} us, the other {theirs_us:9.1f} us, {self.deviation:+7.1%}"


def durations(ours: Recording, theirs: Recording) -> list[Duration]:
    """Of all work that both have: kernels of a name and grid, copies of a name and size. Longest first."""
    mine, other = _durations_ns(ours), _durations_ns(theirs)
    found = [
        Duration(name, min(len(mine[name]), len(other[name])), median(mine[name]), median(other[name]))
        for name in mine.keys() & other.keys()
        if median(other[name]) > 0
    ]
    return sorted(found, key=lambda one: (-one.theirs_ns, one.name))


def _durations_ns(recording: Recording) -> dict[str, list[int]]:
    events = recording.events
    shapes = {int(record["event"]): record for record in recording.devices}
    found: dict[str, list[int]] = defaultdict(list)
    for row in work_rows(recording):
        name = _name(recording, row)
        if row in shapes:
            kernel = events.kind[row] == EventKind.KERNEL
            name += f" {shapes[row]['grid'].tolist() if kernel else int(shapes[row]['size_bytes'])}"
        found[name].append(int(events.end_ns[row] - events.start_ns[row]))
    return found
