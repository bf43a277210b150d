"""What rises step over step: where a program that leaks allocates what it never frees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otel_torchprof.analysis.memory.blocks import Blocks
from otel_torchprof.analysis.memory.places import Numbers
from otel_torchprof.analysis.memory.sites import Sites
from otel_torchprof.recording import Recording, StepFlags

MIN_STEPS = 3
MAX_SITES = 20
# Of the steps: what grows in fewer of them fills up once, as a cache does, or breathes.
_MIN_PART_THAT_RISES = 0.8


@dataclass(frozen=True, slots=True)
class GrowingSite:
    """A place in the program whose memory rises."""

    operator: str
    module: str
    names: tuple[str, ...]  # around it, outermost first
    stack: tuple[str, ...]  # Python calls around it, innermost first
    bytes_per_step: float  # slope of the line through what was in use at each step's end
    first_bytes: int  # in use at the end of the first step that counts
    last_bytes: int
    blocks: int  # in use at the end of the last step


@dataclass(frozen=True, slots=True)
class Growth:
    """From the second complete step on: the first allocates what stays."""

    steps: int  # that count
    bytes_per_step: float  # of all memory
    sites: list[GrowingSite]


def find_growth(recording: Recording, blocks: Blocks, sites: Sites, device: int) -> Growth:
    """What grows on a device; nothing where fewer than `MIN_STEPS` steps count."""
    complete = [step.end_ns for step in recording.steps if StepFlags.UNFINISHED not in step.flags]
    ends_ns = np.array(sorted(complete)[1:], dtype=np.int64)
    if len(ends_ns) < MIN_STEPS:
        return Growth(len(ends_ns), 0.0, [])
    own = np.flatnonzero(blocks.device == device)
    whole = _in_use(blocks, own, np.zeros(len(own), dtype=np.int64), 1, ends_ns)[0]
    made = own[~blocks.is_from_before[own]]
    number, place = np.unique(sites.sites_of(blocks.event[made]), return_inverse=True)
    place = place.reshape(-1)
    in_use = _in_use(blocks, made, place, len(number), ends_ns)
    rising = (np.diff(in_use, axis=1) > 0).mean(axis=1) >= _MIN_PART_THAT_RISES
    slope = _slopes(in_use)
    found: list[GrowingSite] = []
    for row in np.flatnonzero(rising & (slope > 0)).tolist():
        members = made[place == row]
        alive = members[(blocks.start_ns[members] <= ends_ns[-1]) & (blocks.end_ns[members] > ends_ns[-1])]
        event = int(blocks.event[members[0]])
        found.append(
            GrowingSite(
                operator=sites.operator(event),
                module=sites.module(event),
                names=tuple(sites.names(int(number[row]))),
                stack=sites.stack(event),
                bytes_per_step=float(slope[row]),
                first_bytes=int(in_use[row, 0]),
                last_bytes=int(in_use[row, -1]),
                blocks=len(alive),
            )
        )
    found.sort(key=lambda site: (-site.bytes_per_step, site.names))
    return Growth(len(ends_ns), float(_slopes(whole[np.newaxis])[0]), found[:MAX_SITES])


def _in_use(blocks: Blocks, members: Numbers, group: Numbers, groups: int, times_ns: Numbers) -> Numbers:
    """Bytes of each group that are in use at each time: a row a group."""
    changes = np.zeros((groups, len(times_ns) + 1), dtype=np.int64)
    sizes = blocks.size_bytes[members]
    begins = np.searchsorted(times_ns, blocks.start_ns[members], side="left")
    ends = np.searchsorted(times_ns, blocks.end_ns[members], side="left")
    np.add.at(changes, (group, begins), sizes)
    np.add.at(changes, (group, ends), -sizes)
    in_use: Numbers = np.cumsum(changes, axis=1)[:, :-1]
    return in_use


def _slopes(values: Numbers) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Of the straight line through each row, a step."""
    steps = np.arange(values.shape[1], dtype=np.float64)
    steps -= steps.mean()
    slopes: np.ndarray[tuple[int, ...], np.dtype[np.float64]] = (values @ steps) / (steps @ steps)
    return slopes
