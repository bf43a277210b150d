"""What an import read, what it had to mend, and what it left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from otel_torchprof.importers.problems import explain, without_harmless


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

    @property
    def harmful(self) -> Mapping[str, int]:
        """The problems that may matter to a reader."""
        return without_harmless(self.problems)

    @property
    def warnings(self) -> list[str]:
        """What may matter to a reader: what was met and what was done about it, one line a problem."""
        return explain(self.problems, harmless=False)

    @property
    def remarks(self) -> list[str]:
        """`notes`, and what was met that does not matter, one line each."""
        return [*self.notes, *explain(self.problems, harmless=True)]

    def add_problem(self, name: str, count: int = 1) -> None:
        """Counts a problem; a count of 0 leaves no trace."""
        if count:
            self.problems[name] += count

    def add_problems(self, problems: Mapping[str, int]) -> None:
        """Counts many problems."""
        for name, count in problems.items():
            self.add_problem(name, count)
