"""Names as the report shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.event_names import without_step_number
from otel_torchprof.recording import Recording

MAX_NAME_CHARACTERS = 1000


@dataclass(frozen=True, eq=False)
class NameGroups:
    """Name ids that the report takes for one name: overloads of an op, and the numbered marks of steps."""

    group_of_id: npt.NDArray[np.int64]
    texts: list[str]  # by group, harmless to show

    def __len__(self) -> int:
        return len(self.texts)


def group_names(recording: Recording) -> NameGroups:
    """Groups all names of a recording."""
    numbers: dict[str, int] = {}
    group_of_id = np.fromiter(
        (
            numbers.setdefault(without_step_number(recording.name(name_id)), len(numbers))
            for name_id in range(recording.name_count)
        ),
        dtype=np.int64,
        count=recording.name_count,
    )
    return NameGroups(group_of_id, [shown(name) for name in numbers])


def shown(name: str) -> str:
    """A name of any origin as one harmless line: escapes for what does not print; long ones are cut."""
    if len(name) > MAX_NAME_CHARACTERS:
        name = f"{name[:MAX_NAME_CHARACTERS]}… ({len(name):,} characters)"
    if not name:
        return "(no name)"
    if name.isprintable():
        return name
    return "".join(char if char.isprintable() else _escape(char) for char in name)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


class UsedNames:
    """Numbers the names that the report really mentions, so that it carries no others."""

    def __init__(self, groups: NameGroups) -> None:
        self._groups = groups
        self._numbers: dict[str, int] = {}

    def numbers(self, groups: Iterable[int]) -> list[int]:
        """Where the names of groups will stand in `texts`."""
        return [self.number(self._groups.texts[group]) for group in groups]

    def number(self, text: str) -> int:
        """Where a text, harmless to show, will stand in `texts`."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        """The names mentioned so far."""
        return list(self._numbers)
