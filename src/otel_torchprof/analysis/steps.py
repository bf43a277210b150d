"""When each step of a recording went on, and which of them figures "a step" are of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import Recording, Step, StepFlags

NO_STEP = -1
Numbers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def is_whole(step: Step) -> bool:
    """Whether all of it was recorded."""
    return not step.flags & (StepFlags.PARTIAL | StepFlags.UNFINISHED)


@dataclass(frozen=True, eq=False)
class StepTimes:
    """Columns, a row for each of `Recording.steps`; times are unix ns."""

    start_ns: Numbers
    end_ns: Numbers
    is_whole: Mask

    @classmethod
    def of(cls, recording: Recording) -> StepTimes:
        """Of all steps of a recording."""
        steps = recording.steps
        return cls(
            np.array([step.start_ns for step in steps], dtype=np.int64),
            np.array([step.end_ns for step in steps], dtype=np.int64),
            np.array([is_whole(step) for step in steps], dtype=bool),
        )

    def __len__(self) -> int:
        return len(self.start_ns)

    @cached_property
    def duration_ns(self) -> Numbers:
        """End minus start."""
        return self.end_ns - self.start_ns

    @cached_property
    def until_ns(self) -> Numbers:
        """When each ends or gives way to one that begins before it ends: no moment is of two steps."""
        return np.minimum(self.end_ns, np.append(self.start_ns[1:], self.end_ns[-1:]))

    @cached_property
    def counts(self) -> Mask:
        """The steps that figures of a step are of: those recorded whole, or all where none was."""
        return self.is_whole if self.is_whole.any() else np.ones(len(self), dtype=bool)

    @property
    def counted(self) -> int:
        """How many of them there are."""
        return int(self.counts.sum())

    @property
    def left_out(self) -> int:
        """How many do not count, as the recording began or ended inside them."""
        return len(self) - self.counted

    @property
    def median_ns(self) -> int:
        """How long a step usually takes; 0 where there are none."""
        return int(np.median(self.duration_ns[self.counts])) if len(self) else 0

    def slowest(self, most: int) -> list[int]:
        """The longest of the steps that count, the longest first."""
        order = np.argsort(-self.duration_ns, kind="stable")
        return [step for step in order.tolist() if self.counts[step]][:most]

    def at(self, times_ns: Numbers) -> Numbers:
        """The step that goes on at each time, the one begun last where several do; `NO_STEP` = none."""
        if not len(self):
            return np.full(len(times_ns), NO_STEP, dtype=np.int64)
        step = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        return np.where((step >= 0) & (times_ns < self.end_ns[step]), step, NO_STEP)
