"""Whose code a Python function is: the user's, or what every program runs in."""

from __future__ import annotations

import re
import sys

# Ends in `/torch/nn/modules/linear.py:130`, or begins with `torch/` as torch.profiler cuts paths short.
_LIBRARY = re.compile(
    r"(?:^|/(?:site|dist)-packages/)(?:torch|otel_torchprof|numpy)/"
    r"|/lib/python[0-9.]+/(?!site-packages/|dist-packages/)"
    r"|^<"
)


def is_user_code(place: str) -> bool:
    """Whether `file:line` is in none of torch, numpy, the standard library and ourselves."""
    file, _colon, line = place.rpartition(":")
    if not file or not line.isascii() or not line.isdigit() or _LIBRARY.search(file):
        return False
    # torch.profiler leaves nothing but the name of files of the standard library.
    return "/" in file or file.removesuffix(".py") not in sys.stdlib_module_names
