"""What the matcher says: findings, and what it could not look for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64]


class Level(IntEnum):
    """How severe a finding is, or how sure."""

    LOW = 1
    MEDIUM = 2
    HIGH = 3


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the program. Empty, or 0, is what the recording does not know."""

    function: str = ""
    file: str = ""
    line: int = 0  # where the definition of the function begins
    module: str = ""  # paths of the innermost `nn.Module`s, their classes where they have none
    op: str = ""  # names of the ops, or of what else was found

    def __str__(self) -> str:
        parts = [f"{self.file}:{self.line} in {self.function}"] if self.file else []
        parts += [f"module {self.module}"] if self.module else []
        return ", ".join([*parts, self.op] if self.op else parts)


@dataclass(frozen=True, slots=True)
class Saving:
    """What mending it is estimated to save, at least and at most, in ns over all that was recorded."""

    low_ns: int
    high_ns: int


@dataclass(frozen=True, eq=False)
class Finding:
    """One cause at one place."""

    pattern: str
    title: str
    severity: Level
    confidence: Level
    place: Place
    detail: str  # what was seen, in words
    rows: Numbers  # the events that show it, ascending
    count_per_step: float | None  # over the steps that count; None where the recording has no steps
    cost_ns: int  # time that it takes, on the host or on the device, over all that was recorded
    cost_per_step_ns: int | None  # of it in the steps that count, by their number; None without steps
    row_costs_ns: Numbers  # the same for each of `rows`
    cost_bytes: int  # memory it holds or moves, 0 = none or not known
    saving: Saving
    advice: str
    example: str  # code
    url: str
    also: tuple[str, ...] = ()  # patterns whose findings had this cause and are part of this one

    @property
    def count(self) -> int:
        """How many events show it."""
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A pattern that was not looked for.

    Attributes:
        needs: what the recording lacks for it; empty where it failed, which `reason` says.
    """

    pattern: str
    reason: str
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SlowStep:
    """A step far above all others: no pattern, as nothing repeats, but a cause worth a look.

    Attributes:
        index: in `Recording.steps`.
        number: None where it has none.
    """

    index: int
    number: int | None
    duration_ns: int
    median_ns: int


@dataclass(frozen=True, slots=True)
class PatternReport:
    """The most costly findings first.

    Attributes:
        slow_step: the slowest, where it took several times as long as a median one.
        window_ns: what shares of the time are of, from the first event to the last.
        steps: what is said of a step is the mean over so many: those recorded whole, or all if none was.
        steps_left_out: of those that do not count.
    """

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...]
    steps: int
    steps_left_out: int
    slow_step: SlowStep | None = None
    window_ns: int = 1
