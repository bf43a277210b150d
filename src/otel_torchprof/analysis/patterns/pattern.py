"""A pattern: what it looks for, what it needs for that, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum

from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.view import View


class Need(Enum):
    """What a recording must hold. The value says how to get it."""

    SHAPES = "shapes of inputs (record_shapes)"
    STACKS = "Python calls (with_stack)"
    MODULES = "calls of modules (with_modules)"
    MEMORY = "memory (profile_memory)"
    TENSORS = "tensors by identity (record_shapes and profile_memory, in .tprof)"
    DEVICE = "work on a device (CUDA or ROCm activity)"
    STEPS = "steps"


@dataclass(frozen=True, eq=False)
class Match:
    """Events that show a pattern; the matcher makes one finding of those at one place.

    Attributes:
        rows: the events, ascending.
        cost_ns: what each costs; None = its duration.
        saving: the least and the greatest part of the cost that mending saves, 0 to 1.
        severity: at least this, whatever it costs.
        has_place: whether a function can be blamed; else there is one finding for the whole program.
    """

    rows: Numbers
    confidence: Level
    detail: str
    cost_ns: Numbers | None = None
    cost_bytes: Numbers | None = None
    saving: tuple[float, float] = (0.0, 1.0)
    severity: Level = Level.LOW
    has_place: bool = True


Finder = Callable[[View], Iterable[Match]]


@dataclass(frozen=True)
class Pattern:
    """One pattern; the texts are what docs/patterns.md says of it.

    Attributes:
        name: kebab case, the same for ever.
        needs: without any of these it is not looked for.
        why: what it costs.
        found: how it is found.
        advice: how to mend it, one sentence.
        example: code that mends it.
        limits: what it misses or may say wrongly.
        explains: patterns whose findings on the same events have this one as their cause.
    """

    name: str
    title: str
    needs: tuple[Need, ...]
    why: str
    found: str
    advice: str
    example: str
    limits: str
    url: str
    find: Finder
    explains: tuple[str, ...] = ()

    def missing(self, view: View) -> list[Need]:
        """What it needs and the recording does not hold."""
        return [need for need in self.needs if not _HAS[need](view)]


def pattern(
    name: str,
    *,
    title: str,
    why: str,
    found: str,
    advice: str,
    example: str,
    limits: str,
    url: str,
    needs: tuple[Need, ...] = (),
    explains: tuple[str, ...] = (),
) -> Callable[[Finder], Pattern]:
    """Makes a `Pattern` of the function that looks for it."""

    def make(find: Finder) -> Pattern:
        return Pattern(name, title, needs, why, found, advice, example, limits, url, find, explains)

    return make


_HAS: dict[Need, Callable[[View], bool]] = {
    Need.SHAPES: lambda view: view.has_shapes,
    Need.STACKS: lambda view: view.has_stacks,
    Need.MODULES: lambda view: view.has_modules,
    Need.MEMORY: lambda view: len(view.recording.memory) > 0,
    Need.TENSORS: lambda view: len(view.recording.tensors) > 0,
    Need.DEVICE: lambda view: view.has_device_work,
    Need.STEPS: lambda view: len(view.recording.steps) > 0,
}
