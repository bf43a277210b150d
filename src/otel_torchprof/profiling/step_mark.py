"""What stands for the step under way where torch has a user scope: here a step is an event of its own."""

from __future__ import annotations

from typing import NamedTuple

from typing_extensions import Self


class StepMark(NamedTuple):
    """A step's name, in the shape of torch's `record_function`. Entering and leaving it changes nothing."""

    name: str

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        pass
