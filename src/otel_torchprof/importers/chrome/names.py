"""The names of a trace: each text once, with what it tells of the event."""

from __future__ import annotations

import re
from array import array
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import EventKind, RecordingBuilder

# Names that record_function gets from torch itself; 2021's traces do not tell them from ops by category.
_USER_PREFIXES = ("ProfilerStep#", "Optimizer.", "enumerate(DataLoader)#")
_STEP = re.compile(r"ProfilerStep#(\d{1,18})")


class NameClass(IntEnum):
    """What a name says its event is, where events of different kinds share a category."""

    PLAIN = 0
    USER = 1
    MODULE = 2
    BUILTIN = 3


class NameTable(dict[Any, int]):
    """Name ids by text; a name that is not there yet is added when it is asked for."""

    def __init__(self, builder: RecordingBuilder, report: ImportReport, max_characters: int) -> None:
        super().__init__()
        self._builder = builder
        self._report = report
        self._max_characters = max_characters
        self._classes = array("B")
        self.step_numbers: dict[int, int] = {}
        """Numbers of steps by name id."""

    def __missing__(self, name: Any) -> int:
        text = name if isinstance(name, str) else "" if name is None else str(name)
        if not isinstance(name, str):
            self._report.add_problem("name_is_no_text")
        if len(text) > self._max_characters:
            self._report.add_problem("name_cut")
            text = text[: self._max_characters]
        number = self._builder.add_name(text)
        self[name] = number
        self._set_class(number, _class_of(text))
        if step := _STEP.fullmatch(text):
            self.step_numbers[number] = int(step[1])
        return number

    def number(self, name: Any, overload: Any, hexadecimal: Any) -> int:
        """The id of a name.

        Args:
            overload: its overload name, if that is a text.
            hexadecimal: its bytes, if text cannot hold them and this is such a thing.
        """
        number = self[name]
        try:
            name_bytes = None if hexadecimal is None else bytes.fromhex(hexadecimal)
        except (TypeError, ValueError):
            name_bytes = None
        overload_bytes = _utf8(overload) if isinstance(overload, str) else b""
        if name_bytes is None and not overload_bytes:
            return number
        if name_bytes is None:
            name_bytes = _utf8(name) if isinstance(name, str) else b""
        cut = self._max_characters
        refined = self._builder.native.add_string(name_bytes[:cut], overload_bytes[:cut])
        self._set_class(refined, NameClass(self._classes[number]))
        return refined

    def _set_class(self, number: int, name_class: NameClass) -> None:
        if number >= len(self._classes):
            self._classes.extend([NameClass.PLAIN] * (number + 1 - len(self._classes)))
        self._classes[number] = name_class

    def refine_kinds(self, kinds: npt.NDArray[np.int64], names: npt.NDArray[np.int64]) -> None:
        """Tells apart by name what shares a category."""
        classes = np.frombuffer(self._classes, dtype=np.uint8)[names]
        kinds[(kinds == EventKind.OP) & (classes == NameClass.USER)] = EventKind.USER
        kinds[(kinds == EventKind.PYTHON) & (classes == NameClass.MODULE)] = EventKind.MODULE
        kinds[(kinds == EventKind.PYTHON) & (classes == NameClass.BUILTIN)] = EventKind.PYTHON_C


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _class_of(name: str) -> NameClass:
    if name.startswith(_USER_PREFIXES):
        return NameClass.USER
    if name.startswith("nn.Module: "):
        return NameClass.MODULE
    return NameClass.BUILTIN if name.startswith("<built-in ") else NameClass.PLAIN
