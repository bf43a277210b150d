"""What a program adds to its traces by `add_metadata`, always as valid JSON."""

from __future__ import annotations

import json
from typing import Any

# Members of a trace that are not for the program.
_RESERVED = frozenset({"traceEvents", "baseTimeNanoseconds"})


class TraceMetadata:
    """Values by name: of all cycles (`preset`), and of the cycle under way."""

    def __init__(self) -> None:
        self.preset: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def begin_cycle(self) -> None:
        """Begins anew, with what was preset."""
        self._values = {}
        for key, text in self.preset.items():
            self.add_json(key, text)

    def add(self, key: str, value: Any) -> None:
        """Adds a string, whatever is in it."""
        if key not in _RESERVED:
            self._values[key] = str(value)

    def add_json(self, key: str, text: str) -> None:
        """Adds a JSON value; what is none is kept as the string it is."""
        if key not in _RESERVED:
            self._values[key] = _parsed(text)

    def values(self) -> dict[str, Any]:
        """What was added so far."""
        return dict(self._values)


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (TypeError, ValueError, RecursionError):
        return str(text)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
