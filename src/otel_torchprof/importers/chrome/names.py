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
# What Python's functions are called, by Kineto and by our exporter.
_FUNCTION = re.compile(r"(?P<file>.+)\((?P<line>\d{1,9})\): (?P<function>.+)", re.DOTALL)
_MODULE_PREFIX = "nn.Module: "
_KINETO_MODULE = re.compile(r"nn\.Module: .+_\d+", re.DOTALL)  # our exporter puts no number behind the class
_BUILTIN_FUNCTION = re.compile(r"<built-in function (?P<function>.+)>", re.DOTALL)


# Kinds whose names a trace writes with more around them.
_CALLS = (EventKind.PYTHON, EventKind.PYTHON_C, EventKind.MODULE)


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
        # By name id: of the name as a recording has it, a function's place and a module's path as overload.
        self._functions: dict[int, int] = {}

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
        elif function := _FUNCTION.fullmatch(text):
            place = f"{function['file']}:{function['line']}"
            self._functions[number] = self._builder.add_name(function["function"], place)
        elif function := _BUILTIN_FUNCTION.fullmatch(text):
            self._functions[number] = self._builder.add_name(function["function"])
        elif text.startswith(_MODULE_PREFIX) and not _KINETO_MODULE.fullmatch(text):
            self._functions[number] = self._builder.add_name(text.removeprefix(_MODULE_PREFIX))
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
        if self._classes[number] == NameClass.MODULE:  # Kineto gives modules no path
            own = name_bytes.removeprefix(_MODULE_PREFIX.encode())
            self._functions[refined] = self._builder.native.add_string(own[:cut], overload_bytes[:cut])
        return refined

    def _set_class(self, number: int, name_class: NameClass) -> None:
        if number >= len(self._classes):
            self._classes.extend([NameClass.PLAIN] * (number + 1 - len(self._classes)))
        self._classes[number] = name_class

    def of_kind(self, name: int, kind: EventKind) -> int:
        """The id under which an event of a kind has its name."""
        return self._functions.get(name, name) if kind in _CALLS else name

    def refine_kinds(self, kinds: npt.NDArray[np.int64], names: npt.NDArray[np.int64]) -> None:
        """Tells apart by name what shares a category, and names calls as a recording does."""
        classes = np.frombuffer(self._classes, dtype=np.uint8)[names]
        kinds[(kinds == EventKind.OP) & (classes == NameClass.USER)] = EventKind.USER
        kinds[(kinds == EventKind.PYTHON) & (classes == NameClass.MODULE)] = EventKind.MODULE
        kinds[(kinds == EventKind.PYTHON) & (classes == NameClass.BUILTIN)] = EventKind.PYTHON_C
        called = np.flatnonzero(np.isin(kinds, _CALLS))
        distinct, where = np.unique(names[called], return_inverse=True)
        functions = [self._functions.get(name, name) for name in distinct.tolist()]
        names[called] = np.array(functions, dtype=np.int64)[where.reshape(-1)]


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _class_of(name: str) -> NameClass:
    if name.startswith(_USER_PREFIXES):
        return NameClass.USER
    if name.startswith(_MODULE_PREFIX):
        return NameClass.MODULE
    return NameClass.BUILTIN if name.startswith("<built-in ") else NameClass.PLAIN
