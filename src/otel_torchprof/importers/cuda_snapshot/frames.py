"""The call stacks of a snapshot as nested slices.

Each allocation or free is a sample of the stack: a frame begins with the first of them made in it and ends
with the next that was not. Slices nest, so that the stack of a sample is what encloses its innermost slice.
"""

from __future__ import annotations

import re
from array import array
from typing import Any

import numpy as np

from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.numbers import to_int
from otel_torchprof.recording import EventKind, RecordingBuilder

MAX_DEPTH = 512
_MAX_NAME_CHARACTERS = 4096
# Frames of what took the stack, of the interpreter and of the dispatcher say nothing about the program.
_MACHINERY = re.compile(
    r"_start$|__libc_|_?Py[A-Z]|_PyEval|pymain_|py(run|vm)_|torch::unwind::|torch::CapturedTraceback::"
    r"|torch::cuda::\(anonymous namespace\)::gather|c10::impl::wrap_kernel_functor|at::_ops::\w+::redispatch"
)
_OPERATOR = re.compile(r"at::_ops::(\w+)::call\(")
_INTERPRETER_FILE = re.compile(r"/(Python|Objects|Modules|Include)/[\w/]+\.(c|h|c\.h)$")

Frame = tuple[int, EventKind]  # name id, and whose frame it is


class FrameSlices:
    """Turns the stacks of one track, given in order of time, into events.

    Args:
        builder: holds the names.
        track: of the builder.
    """

    def __init__(self, builder: RecordingBuilder, track: int) -> None:
        self._builder = builder
        self._track = track
        self._start_ns = array("q")
        self._end_ns = array("q")
        self._name = array("q")
        self._kind = array("q")
        self._open: list[tuple[Frame, int]] = []
        # Equal stacks are mostly one object; `_kept` holds on to them so that an id names one object only.
        self._stacks: dict[int, list[Frame]] = {}
        self._frames: dict[int, Frame | None] = {}
        self._kept: list[object] = []

    def sample(self, stack: object, time_ns: int) -> int:
        """Notes the stack at a time and returns the number of its innermost frame among all slices.

        Without a stack it is the slice that is open at that time; -1 = none.
        """
        frames = self._frames_of(stack)
        if frames:
            same = 0
            for frame, (known, _slice_number) in zip(frames, self._open, strict=False):
                if frame != known:
                    break
                same += 1
            self._close(same, time_ns)
            for frame in frames[same:]:
                self._open.append((frame, len(self._name)))
                self._start_ns.append(time_ns)
                self._end_ns.append(time_ns)
                self._name.append(frame[0])
                self._kind.append(frame[1])
        return self._open[-1][1] if self._open else -1

    def finish(self, time_ns: int) -> None:
        """Ends what is open."""
        self._close(0, time_ns)

    def add_to(self, draft: EventDraft) -> int:
        """Hands the slices over as events and returns the number of the first."""
        columns = {"start_ns": self._start_ns, "end_ns": self._end_ns, "name": self._name, "kind": self._kind}
        blocks = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
        return draft.add_block({**blocks, "track": np.full(len(self._name), self._track)})

    def _close(self, depth: int, time_ns: int) -> None:
        for _frame, slice_number in self._open[depth:]:
            self._end_ns[slice_number] = time_ns
        del self._open[depth:]

    def _frames_of(self, stack: object) -> list[Frame]:
        """The frames worth showing, outermost first."""
        if not isinstance(stack, list | tuple) or not stack:
            return []
        known = self._stacks.get(id(stack))
        if known is None:
            found = [self._frame(frame) for frame in stack[: 4 * MAX_DEPTH]]
            known = [frame for frame in reversed(found) if frame is not None][-MAX_DEPTH:]
            self._stacks[id(stack)] = known
            self._kept.append(stack)
        return known

    def _frame(self, frame: Any) -> Frame | None:
        if id(frame) not in self._frames:
            self._frames[id(frame)] = self._read_frame(frame) if isinstance(frame, dict) else None
            self._kept.append(frame)
        return self._frames[id(frame)]

    def _read_frame(self, frame: dict[str, Any]) -> Frame | None:
        name, file = _text(frame.get("name")), _text(frame.get("filename"))
        if _MACHINERY.match(name) or _INTERPRETER_FILE.search(file):
            return None
        operator = _OPERATOR.match(name)
        if operator is not None:
            return self._builder.add_name(f"aten::{operator[1]}"), EventKind.OTHER
        line = to_int(frame.get("line"), 0, 0, (1 << 31) - 1)
        is_python = file.endswith(".py") or (file.startswith("<") and file.endswith(">"))
        place = f"{file}:{line}" if file.strip("?") else ""
        return self._builder.add_name(name, place), EventKind.PYTHON if is_python else EventKind.OTHER


def _text(value: object) -> str:
    return value[:_MAX_NAME_CHARACTERS] if isinstance(value, str) else ""
