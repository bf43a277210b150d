"""Spans that say when a profiler ran, as Kineto's `PyTorch Profiler (0)`: nobody's work."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import EventKind


def is_profiler_window(kind: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which of these kinds are such spans; where there is nothing else, spans are the work."""
    is_span = kind == EventKind.SPAN
    return np.zeros_like(is_span) if is_span.all() else is_span
