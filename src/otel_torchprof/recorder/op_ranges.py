"""Ranges around every op for other tools, such as Nsight Systems and VTune, which draw and time them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from otel_torchprof._native import core
from otel_torchprof.recorder.bridge import load_bridge


class OpRanges:
    """Pushes a range at the start of each op of each thread, and pops it at the end, from `start` to `stop`.

    The range of an op that ends on another thread, or before ops inside it, ends with the next of its thread.
    """

    def __init__(self, push: Callable[[str], object], pop: Callable[[], object]) -> None:
        self._push = push
        self._pop = pop
        self._slot = -1
        # Of each thread the open ranges, innermost last, and whether their op has ended.
        self._open: dict[int, dict[int, bool]] = {}

    def start(self, *, record_shapes: bool) -> None:
        """Begin.

        Args:
            record_shapes: the sizes of an op's tensors are in its range's text.

        Raises:
            BridgeUnavailable: ops cannot be seen with this torch on this machine.
            RuntimeError: others draw ranges, or too many record.
        """
        bridge = load_bridge()
        slot = core.start_op_ranges(self._begin, self._end)
        if slot < 0:
            raise RuntimeError("ranges are drawn already, or four captures record: stop one of them first")
        self._slot = slot
        try:
            bridge.enable(slot, record_inputs=record_shapes)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End, with the ranges that are open on this thread; again, it does nothing."""
        slot, self._slot = self._slot, -1
        if slot < 0:
            return
        load_bridge().disable(slot)
        core.stop_op_ranges(slot)
        for _key in self._open.pop(threading.get_ident(), {}):
            self._pop()

    def _begin(self, key: int, text: str) -> None:
        mine = self._open.setdefault(threading.get_ident(), {})
        self._pop_ended(mine)
        self._push(text)
        mine[key] = False

    def _end(self, key: int) -> None:
        mine = self._open.setdefault(threading.get_ident(), {})
        for ranges in (mine, *tuple(self._open.values())):
            if key in ranges:
                ranges[key] = True
                break
        self._pop_ended(mine)

    def _pop_ended(self, mine: dict[int, bool]) -> None:
        while mine and mine[innermost := next(reversed(mine))]:
            del mine[innermost]
            self._pop()


os.register_at_fork(after_in_child=core.forget_op_ranges)
