"""What the numbers that native code gave the texts of a trace stand for: each text is looked at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from otel_torchprof._native import core
from otel_torchprof.importers.chrome.flows import Flows
from otel_torchprof.importers.chrome.schema import Label
from otel_torchprof.importers.chrome.trace_builder import TraceBuilder

Numbers = npt.NDArray[np.int64]

_Text = TypeVar("_Text")
_LABEL = msgspec.json.Decoder(Label, float_hook=str)
_TEXT = msgspec.json.Decoder(str)


class NumberMap:
    """Turns the numbers of one native table into what its texts mean.

    Args:
        texts_from: the texts of the table from a number on.
        meaning: what a text means.
    """

    def __init__(self, texts_from: Callable[[int], list[_Text]], meaning: Callable[[_Text], int]) -> None:
        def new_meanings(first: int) -> list[int]:
            return [meaning(text) for text in texts_from(first)]

        self._new_meanings = new_meanings
        self._meanings = np.empty(0, dtype=np.int64)

    def __call__(self, numbers: npt.NDArray[np.uint32]) -> Numbers:
        """The meanings of a column of numbers."""
        new = self._new_meanings(len(self._meanings))
        if new:
            self._meanings = np.concatenate([self._meanings, np.array(new, dtype=np.int64)])
        return self._meanings[numbers]


class TextTables:
    """The tables of one trace, in what they are for the recording that is being built."""

    def __init__(
        self,
        scanner: core.TraceScanner,
        trace: TraceBuilder,
        flows: Flows,
    ) -> None:
        def name(texts: tuple[bytes, ...]) -> int:
            label, overload, name_bytes = texts
            return trace.names.number(_label(label), _text(overload), _text(name_bytes))

        def place(texts: tuple[bytes, ...]) -> int:
            process, thread = texts
            return trace.tracks.place(_label(process), _label(thread))

        self.names = NumberMap(scanner.names, name)
        self.categories = NumberMap(scanner.categories, lambda text: trace.categories[_label(text)])
        self.flow_families = NumberMap(scanner.categories, lambda text: flows.family(_label(text)))
        self.places = NumberMap(scanner.places, place)
        self.payloads = NumberMap(scanner.inputs, trace.inputs.__getitem__)
        self.arguments = NumberMap(scanner.arguments, trace.counted.add_arguments)


def _label(text: bytes) -> Label:
    return _LABEL.decode(text) if text else None


def _text(text: bytes) -> str | None:
    return _TEXT.decode(text) if text.startswith(b'"') else None
