"""Where memory was allocated: the operator, the module and the stack around an event."""

from __future__ import annotations

import re

import numpy as np

from otel_torchprof.analysis.memory.operators import NONE, OPERATOR_NAME, Operators
from otel_torchprof.analysis.memory.places import Numbers
from otel_torchprof.recording import EventKind, Recording

_NUMBERED_STEP = re.compile(r"ProfilerStep#\d+")
_PYTHON = (EventKind.PYTHON, EventKind.PYTHON_C)
NO_OPERATOR = "(no operator known)"


class Sites:
    """Names the places in a program that events lie in."""

    def __init__(self, recording: Recording, operators: Operators) -> None:
        self._recording = recording
        self._operators = operators
        self._parent = recording.tree().parent
        self._kind = recording.events.kind
        self._site_of_row: dict[int, int] = {NONE: 0}
        self._numbers: dict[tuple[int, int], int] = {}
        self._parts: list[tuple[int, int]] = [(0, 0)]  # enclosing site and name id, by site
        self._is_step: dict[int, bool] = {}

    def site_of(self, row: int) -> int:
        """A number, equal for events with equal names around them, 0 = none. Marks of steps do not count."""
        pending: list[int] = []
        while row not in self._site_of_row:
            pending.append(row)
            row = int(self._parent[row])
        site = self._site_of_row[row]
        for inner in reversed(pending):
            name = int(self._recording.events.name[inner])
            if not self._is_numbered_step(name):
                known = self._numbers.setdefault((site, name), len(self._parts))
                if known == len(self._parts):
                    self._parts.append((site, name))
                site = known
            self._site_of_row[inner] = site
        return site

    def _is_numbered_step(self, name: int) -> bool:
        if name not in self._is_step:
            self._is_step[name] = _NUMBERED_STEP.fullmatch(self._recording.name(name)) is not None
        return self._is_step[name]

    def sites_of(self, rows: Numbers) -> Numbers:
        """`site_of` for many rows."""
        distinct, place = np.unique(rows, return_inverse=True)
        sites = np.array([self.site_of(row) for row in distinct.tolist()], dtype=np.int64)
        result: Numbers = sites[place.reshape(-1)]
        return result

    def names(self, site: int) -> list[str]:
        """The names around the site, outermost first."""
        names: list[str] = []
        while site:
            site, name = self._parts[site]
            names.append(self._recording.name(name) or "(no name)")
        return names[::-1]

    def operator(self, row: int) -> str:
        """The operator that an event lies in, else the innermost Python call, else the event itself."""
        if row == NONE:
            return NO_OPERATOR
        operator = int(self._operators.operator[row])
        if operator != NONE:
            return self._recording.event_name(operator)
        around = self._around(row)
        # A snapshot knows operators as frames only.
        for outer in reversed(around):
            if OPERATOR_NAME.fullmatch(self._recording.event_name(outer)):
                return self._recording.event_name(outer)
        for outer in around:
            if self._kind[outer] == EventKind.PYTHON:
                return self._frame(outer)
        return self._recording.event_name(row) or NO_OPERATOR

    def module(self, row: int) -> str:
        """The path of the innermost module around an event; empty where there is none."""
        for outer in self._around(row):
            if self._kind[outer] == EventKind.MODULE:
                name = int(self._recording.events.name[outer])
                return self._recording.overload_name(name) or self._recording.name(name)
        return ""

    def stack(self, row: int) -> tuple[str, ...]:
        """The Python calls around an event, innermost first, as `function (file:line)`; else other frames."""
        around = self._around(row)
        calls = [outer for outer in around if self._kind[outer] in _PYTHON]
        frames = calls or [outer for outer in around if self._kind[outer] == EventKind.OTHER]
        return tuple(self._frame(outer) for outer in frames)

    def _frame(self, row: int) -> str:
        name = int(self._recording.events.name[row])
        function, place = self._recording.name(name) or "(no name)", self._recording.overload_name(name)
        return f"{function} ({place})" if place else function

    def _around(self, row: int) -> list[int]:
        return [row, *self._recording.tree().ancestors(row)] if row != NONE else []
