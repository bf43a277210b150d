"""What our own exporter says was counted over events: an object of its own among their arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.numbers import to_float
from otel_torchprof.recording import COUNTER_DTYPE, RecordingBuilder

# By the name of the object: the series that its counters are of, as native/core/counter_series.h has them.
_SERIES = {"Counters": "count", "Estimated counters": "estimate"}
_MAX_NAME_CHARACTERS = 256
_MARKS = tuple(f'"{name}"'.encode() for name in _SERIES)

Records = npt.NDArray[np.void]


class CountedEvents:
    """Takes the counters out of the arguments that no column of a recording holds."""

    def __init__(self, builder: RecordingBuilder) -> None:
        self._builder = builder
        # By string id of arguments: that of what is left of them, 0 = nothing; names and values of counters.
        self._counted: dict[int, tuple[int, list[tuple[int, float]]]] = {}

    def add_arguments(self, text: bytes) -> int:
        """The string id of arguments, which stand for their counters until `split`."""
        add_string = self._builder.native.add_string
        text_id = add_string(text)
        if text_id in self._counted or not any(mark in text for mark in _MARKS):
            return text_id
        try:
            arguments = json.loads(text)
        except (ValueError, RecursionError):
            return text_id
        values = [
            (self._builder.add_name(counter[:_MAX_NAME_CHARACTERS], series), to_float(value))
            for name, series in _SERIES.items()
            if isinstance(arguments.get(name), dict)
            for counter, value in arguments.pop(name).items()
        ]
        left = add_string(json.dumps(arguments, separators=(",", ":")).encode()) if arguments else 0
        self._counted[text_id] = (left, [(name, value) for name, value in values if math.isfinite(value)])
        return text_id

    def split(
        self, arguments: Records, start_ns: Sequence[int], track: Sequence[int]
    ) -> tuple[Records, Records]:
        """The arguments without counters, and the counters.

        Args:
            arguments: rows of `ARGUMENTS_DTYPE` whose texts came from `add_arguments`.
            start_ns, track: of the events, by row.
        """
        if not self._counted:
            return arguments, np.empty(0, dtype=COUNTER_DTYPE)
        counters: list[tuple[int, int, int, int, float]] = []
        texts = arguments["text"].copy()
        for place in np.flatnonzero(np.isin(texts, list(self._counted))).tolist():
            row = int(arguments["event"][place])
            left, values = self._counted[int(texts[place])]
            counters += [(start_ns[row], row, track[row], name, value) for name, value in values]
            texts[place] = left
        arguments = arguments.copy()
        arguments["text"] = texts
        return arguments[texts != 0], np.array(counters, dtype=COUNTER_DTYPE)
