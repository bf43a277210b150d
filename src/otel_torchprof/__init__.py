"""A native PyTorch recorder that speaks OpenTelemetry.

Names are loaded when they are first used: `import otel_torchprof` imports neither torch nor an SDK and starts
no thread.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from otel_torchprof.version import __version__

if TYPE_CHECKING:
    from otel_torchprof.control import prometheus_collector, set_mode
    from otel_torchprof.profiler import profile, record_function
    from otel_torchprof.recorder.program_steps import step
    from otel_torchprof.recording import Recording

__all__ = [
    "Recording",
    "__version__",
    "profile",
    "prometheus_collector",
    "record_function",
    "set_mode",
    "step",
]

_HOMES = {
    "Recording": "otel_torchprof.recording",
    "profile": "otel_torchprof.profiler",
    "prometheus_collector": "otel_torchprof.control",
    "record_function": "otel_torchprof.profiler",
    "set_mode": "otel_torchprof.control",
    "step": "otel_torchprof.recorder.program_steps",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
