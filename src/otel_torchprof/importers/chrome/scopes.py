"""Pairs the begins and ends of B/E and of asynchronous events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from otel_torchprof.importers.chrome.categories import USER_SCOPE, Category
from otel_torchprof.importers.chrome.schema import Event, Slice
from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.recording import EventFlags, EventKind


class Mark(NamedTuple):
    """A begin, an end, or an instant."""

    time_ns: int
    phase: str | None  # "B", "E" or "n"
    name: int  # name id, 0 = none given
    track: int
    category: Category
    event: Event
    text: Slice  # of the event


class _OpenMarks:
    """A stack of begins from which one may also be taken by its name, in constant time."""

    def __init__(self) -> None:
        self._marks: list[Mark | None] = []  # None where one was taken from below the top
        self._places: dict[int, list[int]] = {}  # by name, innermost last

    def push(self, mark: Mark) -> None:
        self._places.setdefault(mark.name, []).append(len(self._marks))
        self._marks.append(mark)

    def pop(self, name: int, problems: Counter[str]) -> Mark | None:
        """The innermost begin of a name, of any where `name` is 0; None where there is none."""
        while self._marks and self._marks[-1] is None:
            self._marks.pop()
        if not self._marks:
            return None
        top = self._marks[-1]
        if top is not None and name in {0, top.name}:
            self._places[top.name].pop()
            self._marks.pop()
            return top
        places = self._places.get(name)
        if not places:
            return None
        problems["end_out_of_order"] += 1
        place = places.pop()
        found, self._marks[place] = self._marks[place], None
        return found

    def rest(self) -> list[Mark]:
        """What was never taken, in order of time."""
        return [mark for mark in self._marks if mark is not None]


@dataclass
class ScopePairer:
    """Collects marks and pairs them when all are known: files are not in order of time.

    `key` of `add` names the line on which begins and ends nest: a track, or an asynchronous id. `takes` is
    asked for each pair, and told when it ended: what it takes becomes no event.
    """

    is_async: bool
    takes: Callable[[Mark, int], bool]
    marks: dict[Hashable, list[Mark]] = field(default_factory=dict)
    _added: list[tuple[int, Mark]] = field(default_factory=list)

    def add(self, key: Hashable, mark: Mark) -> None:
        """Takes one mark."""
        self.marks.setdefault(key, []).append(mark)

    def pair(self, draft: EventDraft, last_ns: int, problems: Counter[str]) -> list[tuple[int, Mark]]:
        """Adds an event for each begin, and returns the rows of all with what they were begun by.

        An end closes the innermost begin of its name, or any where it has none. Begins that no end names are
        closed by ends that name no begin; what is never ended lasts until `last_ns` and is flagged.
        """
        self._added = []
        for marks in self.marks.values():
            marks.sort(key=attrgetter("time_ns"))
            open_marks = _OpenMarks()
            stray_ends: list[Mark] = []
            for mark in marks:
                if mark.phase == "B":
                    open_marks.push(mark)
                elif mark.phase != "E":
                    self._add(draft, mark, mark.time_ns, EventFlags.INSTANT)
                elif (begin := open_marks.pop(mark.name, problems)) is None:
                    stray_ends.append(mark)
                else:
                    self._end(draft, begin, mark)
            self._pair_strays(open_marks.rest(), stray_ends, draft, last_ns, problems)
        return self._added

    def _pair_strays(
        self, begins: list[Mark], ends: list[Mark], draft: EventDraft, last_ns: int, problems: Counter[str]
    ) -> None:
        """Pairs what no name pairs by time alone; both lists are in its order."""
        open_marks: list[Mark] = []
        next_begin = 0
        for end in ends:
            while next_begin < len(begins) and begins[next_begin].time_ns <= end.time_ns:
                open_marks.append(begins[next_begin])
                next_begin += 1
            if open_marks:
                problems["end_of_another_name"] += 1
                self._end(draft, open_marks.pop(), end)
            else:
                problems["end_without_begin"] += 1
        for begin in [*open_marks, *begins[next_begin:]]:
            problems["begin_without_end"] += 1
            self._add(draft, begin, max(begin.time_ns, last_ns), EventFlags.UNFINISHED)

    def _end(self, draft: EventDraft, begin: Mark, end: Mark) -> None:
        flags = EventFlags.OTHER_THREAD if end.track != begin.track else EventFlags(0)
        self._add(draft, begin, end.time_ns, flags, end.track)

    def _add(
        self, draft: EventDraft, begin: Mark, end_ns: int, flags: EventFlags, end_track: int = 0
    ) -> None:
        if self.takes(begin, end_ns):
            return
        kind = begin.category.kind
        if self.is_async and not _was_set_aside(begin.event):
            flags |= EventFlags.ASYNC
        row = draft.add(
            begin.time_ns,
            end_ns,
            begin.name,
            begin.track,
            kind,
            scope=USER_SCOPE if kind == EventKind.USER else 0,
            flags=flags,
            end_track=end_track if flags & EventFlags.OTHER_THREAD else 0,
        )
        self._added.append((row, begin))


def _was_set_aside(event: Event) -> bool:
    """Whether our own exporter made it asynchronous only because it crosses slices."""
    return event.args is not None and event.args.synchronous is True
