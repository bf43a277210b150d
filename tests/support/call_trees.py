"""Who called whom: as a tracer in plain Python sees it, and as a recording has it. Both in the same form."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FrameType, ModuleType
from typing import Any

from otel_torchprof._native import core
from otel_torchprof.recorder.sources.python_frames import PythonFrames
from otel_torchprof.recorder.sources.source import SourceTarget
from otel_torchprof.recording import EventKind, Recording

PYTHON_KINDS = (EventKind.PYTHON, EventKind.PYTHON_C)


@dataclass(eq=False, repr=False)
class Call:
    """A call, or the resumption of a generator, and what it called."""

    kind: EventKind
    name: str
    place: str  # file:line, empty for C functions
    calls: list[Call] = field(default_factory=list)

    def within(self, file: str) -> list[Call]:
        """The outermost calls of functions of a file, among this and all below."""
        if self.place.rpartition(":")[0] == file:
            return [self]
        return [found for call in self.calls for found in call.within(file)]

    def only_of(self, file: str) -> Call:
        """Without the calls of functions of other files: what they called takes their place."""
        return Call(self.kind, self.name, self.place, [c.only_of(file) for c in self._called_in(file)])

    def _called_in(self, file: str) -> list[Call]:
        found: list[Call] = []
        for call in self.calls:
            found += [call] if call.place.rpartition(":")[0] == file else call._called_in(file)
        return found

    def walk(self) -> Iterator[Call]:
        return (call for _depth, call in self._walk())

    def lines(self) -> list[tuple[int, str, str, str]]:
        """The tree as depth, kind, name and place of each call: stacks may be too deep to compare trees."""
        return [(depth, call.kind.name, _comparable_name(call), call.place) for depth, call in self._walk()]

    def _walk(self) -> Iterator[tuple[int, Call]]:
        pending = [(0, self)]
        while pending:
            depth, call = pending.pop()
            yield depth, call
            pending += [(depth + 1, below) for below in reversed(call.calls)]


def _comparable_name(call: Call) -> str:
    # Python 3.10 does not tell a tracer qualified names, which recordings have where they can be found.
    is_qualified = call.kind == EventKind.PYTHON_C or sys.version_info >= (3, 11)
    return call.name if is_qualified else call.name.rpartition(".")[2]


class PlainTracer:
    """Builds the trees with `sys.setprofile`, one list of roots a thread."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[Call]] = {}

    def roots(self) -> list[Call]:
        return [call for stack in self._stacks.values() for call in stack[0].calls]

    def run(self, function: Callable[[], object]) -> object:
        with garbage_left_alone():
            threading.setprofile(self)
            sys.setprofile(self)
            try:
                return function()
            finally:
                sys.setprofile(None)
                threading.setprofile(None)

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        bottom = Call(EventKind.OTHER, "", "")
        stack = self._stacks.setdefault(threading.get_ident(), [bottom])
        if event == "call":
            self._push(stack, Call(EventKind.PYTHON, qualified_name(frame.f_code), place(frame.f_code)))
        elif event == "c_call":
            self._push(stack, Call(EventKind.PYTHON_C, c_name(argument), ""))
        elif len(stack) > 1:
            stack.pop()

    @staticmethod
    def _push(stack: list[Call], call: Call) -> None:
        stack[-1].calls.append(call)
        stack.append(call)


def qualified_name(code: CodeType) -> str:
    return getattr(code, "co_qualname", code.co_name)


def place(code: CodeType) -> str:
    return f"{code.co_filename}:{code.co_firstlineno}"


def c_name(function: BuiltinFunctionType) -> str:
    """As recordings have it: with its class, and with the module unless that is `builtins`."""
    owner = function.__self__
    if owner is None or isinstance(owner, ModuleType) or type(owner).__name__ == "PyCapsule":
        module, name = function.__module__ or getattr(owner, "__name__", ""), function.__name__
    else:
        cls = owner if isinstance(owner, type) else type(owner)
        module, name = cls.__module__, f"{cls.__qualname__}.{function.__name__}"
    return name if module in ("", "builtins") else f"{module}.{name}"


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """What the collector calls comes at times of its own."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class FrameCapture:
    """A capture of Python calls alone, without torch."""

    def __init__(self, cap_bytes: int = 64 << 20, path: str | None = None) -> None:
        self.native = core.Capture(path, cap_bytes)
        self.source = PythonFrames()

    def __enter__(self) -> FrameCapture:
        slot = self.native.start()
        self.source.start(SourceTarget(self.native, slot, None))  # type: ignore[arg-type]
        return self

    def __exit__(self, *_exception: object) -> None:
        self.source.stop()
        self.native.stop()

    def recording(self) -> Recording:
        return Recording(self.native.recording())


def record(function: Callable[[], object]) -> Recording:
    """The calls of all threads while a function runs."""
    capture = FrameCapture()
    with garbage_left_alone(), capture:
        function()
    return capture.recording()


def recorded_roots(recording: Recording) -> list[Call]:
    """The outermost calls of all threads, in order of threads and time."""
    calls: dict[int, Call] = {}
    roots: list[Call] = []
    tree = recording.tree()
    for row in range(len(recording)):
        kind = EventKind(int(recording.events.kind[row]))
        if kind not in PYTHON_KINDS:
            continue
        name = recording.events.name[row]
        calls[row] = Call(kind, recording.event_name(row), recording.overload_name(int(name)))
        above = next((at for at in tree.ancestors(row) if at in calls), None)
        (roots if above is None else calls[above].calls).append(calls[row])
    return roots
