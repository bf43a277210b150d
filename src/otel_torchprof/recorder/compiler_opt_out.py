"""Keeping our wrappers of torch's functions out of torch.compile."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def run_outside_compiler(torch: ModuleType, wrapper: Any) -> None:
    """Have torch.compile run `wrapper` as it is when it meets it behind a graph break.

    Traced, it would take the branch for compiling and count nothing.
    """
    frames = torch._C._dynamo.eval_frame
    if hasattr(frames, "skip_code"):  # torch < 2.7
        frames.skip_code(wrapper.__code__)
    else:
        skip_this_frame_only = frames._FrameExecStrategy(
            frames._FrameAction.SKIP, frames._FrameAction.DEFAULT
        )
        frames.set_code_exec_strategy(wrapper.__code__, skip_this_frame_only)
