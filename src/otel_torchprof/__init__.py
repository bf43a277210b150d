"""A native PyTorch recorder that speaks OpenTelemetry.

Names are loaded when they are first used: `import otel_torchprof` imports neither torch nor an SDK and starts
no thread.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from otel_torchprof.version import __version__

if TYPE_CHECKING:
    from otel_torchprof.live.control import batch, prometheus_collector, set_mode
    from otel_torchprof.profiler import (
        DeviceType,
        ExecutionTraceObserver,
        ProfilerAction,
        ProfilerActivity,
        itt,
        kineto_available,
        otlp_trace_handler,
        profile,
        record_function,
        recording_handler,
        schedule,
        supported_activities,
        tensorboard_trace_handler,
    )
    from otel_torchprof.recorder.program_steps import step
    from otel_torchprof.recorder.span import span
    from otel_torchprof.recording import Recording

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "Recording",
    "__version__",
    "batch",
    "itt",
    "kineto_available",
    "otlp_trace_handler",
    "profile",
    "prometheus_collector",
    "record_function",
    "recording_handler",
    "schedule",
    "set_mode",
    "span",
    "step",
    "supported_activities",
    "tensorboard_trace_handler",
]

# All others are the profiler's.
_HOMES = {
    "Recording": "otel_torchprof.recording",
    "batch": "otel_torchprof.live.control",
    "prometheus_collector": "otel_torchprof.live.control",
    "set_mode": "otel_torchprof.live.control",
    "span": "otel_torchprof.recorder.span",
    "step": "otel_torchprof.recorder.program_steps",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES.get(name, "otel_torchprof.profiler")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
