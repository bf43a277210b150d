"""How often torch.compile compiled a frame again, read off the compiler's own count."""

from __future__ import annotations

import sys
from collections.abc import Mapping


class Recompilations:
    """Follows the compilations of each frame that the compiler numbers its logs by (`[0/1]`: frame 0, again).

    The compiler is asked, never imported: a program that has not loaded it has compiled nothing. Its count
    starts over with `torch.compiler.reset()`; ours goes on.
    """

    def __init__(self) -> None:
        self._before_reset = 0
        self._last = 0

    def count(self) -> int:
        """Compilations after the first of their frame, so far."""
        now = _count_in_compiler()
        if now < self._last:
            self._before_reset += self._last
        self._last = now
        return self._before_reset + now


def _count_in_compiler() -> int:
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    compilations: Mapping[object, int] = getattr(convert_frame, "FRAME_COMPILE_COUNTER", {})
    # A copy first: another thread may compile meanwhile.
    return sum(count - 1 for count in list(compilations.values()) if count > 1)
