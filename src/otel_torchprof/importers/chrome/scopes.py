"""Pairs the begins and ends of B/E and of asynchronous events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from otel_torchprof.importers.chrome.categories import USER_SCOPE, Category
from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.recording import EventFlags, EventKind


class Mark(NamedTuple):
    """A begin, an end, or an instant."""

    time_ns: int
    phase: str | None  # "B", "E" or "n"
    name: int  # name id, 0 = none given
    track: int
    category: Category


@dataclass
class ScopePairer:
    """Collects marks and pairs them when all are known: files are not in order of time.

    `key` of `add` names the line on which begins and ends nest: a track, or an asynchronous id.
    """

    is_async: bool
    marks: dict[Hashable, list[Mark]] = field(default_factory=dict)

    def add(self, key: Hashable, mark: Mark) -> None:
        """Takes one mark."""
        self.marks.setdefault(key, []).append(mark)

    def pair(self, draft: EventDraft, last_ns: int, problems: Counter[str]) -> None:
        """Adds an event for each begin.

        An end closes the innermost begin of its name, or any where it has none. Begins that no end names are
        closed by ends that name no begin; what is never ended lasts until `last_ns` and is flagged.
        """
        for marks in self.marks.values():
            marks.sort(key=attrgetter("time_ns"))
            open_marks: list[Mark] = []
            stray_ends: list[Mark] = []
            for mark in marks:
                if mark.phase == "B":
                    open_marks.append(mark)
                elif mark.phase != "E":
                    self._add(draft, mark, mark.time_ns, EventFlags.INSTANT)
                elif not self._close(mark, open_marks, draft, problems):
                    stray_ends.append(mark)
            for mark in reversed(open_marks):
                end = next((end for end in stray_ends if end.time_ns >= mark.time_ns), None)
                if end is None:
                    problems["begin_without_end"] += 1
                    self._add(draft, mark, max(mark.time_ns, last_ns), EventFlags.UNFINISHED)
                else:
                    stray_ends.remove(end)
                    problems["end_of_another_name"] += 1
                    self._end(draft, mark, end)
            if stray_ends:
                problems["end_without_begin"] += len(stray_ends)

    def _close(self, end: Mark, open_marks: list[Mark], draft: EventDraft, problems: Counter[str]) -> bool:
        index = len(open_marks) - 1
        if end.name and open_marks and open_marks[index].name != end.name:
            index = next((i for i in range(index, -1, -1) if open_marks[i].name == end.name), -1)
            if index >= 0:
                problems["end_out_of_order"] += 1
        if index < 0:
            return False
        self._end(draft, open_marks.pop(index), end)
        return True

    def _end(self, draft: EventDraft, begin: Mark, end: Mark) -> None:
        flags = EventFlags.OTHER_THREAD if end.track != begin.track else EventFlags(0)
        self._add(draft, begin, end.time_ns, flags, end.track)

    def _add(
        self, draft: EventDraft, begin: Mark, end_ns: int, flags: EventFlags, end_track: int = 0
    ) -> None:
        kind = begin.category.kind
        draft.add(
            begin.time_ns,
            end_ns,
            begin.name,
            begin.track,
            kind,
            scope=USER_SCOPE if kind == EventKind.USER else 0,
            flags=flags | (EventFlags.ASYNC if self.is_async else EventFlags(0)),
            end_track=end_track if flags & EventFlags.OTHER_THREAD else 0,
        )
