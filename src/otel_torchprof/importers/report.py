"""What an import read, what it had to mend, and what it left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class ImportReport:
    """How an import went. A file that could be opened always yields one, however damaged it is."""

    format: str
    """Name of the format, as in the table of importers."""
    counts: Counter[str] = field(default_factory=Counter)
    """What was read: `events`, `kernels`, `launches_linked`, `links`, `steps`, `tracks`, ..."""
    problems: Counter[str] = field(default_factory=Counter)
    """What was wrong, by name and how often; docs/importing.md says what was done about each."""
    notes: list[str] = field(default_factory=list)
    """What a reader of the result should know, one sentence each."""

    def add_problem(self, name: str, count: int = 1) -> None:
        """Counts a problem; a count of 0 leaves no trace."""
        if count:
            self.problems[name] += count

    def add_problems(self, problems: Mapping[str, int]) -> None:
        """Counts many problems."""
        for name, count in problems.items():
            self.add_problem(name, count)
