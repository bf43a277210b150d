"""Which of torch's own profiles trace CUDA devices: those take what CUPTI tells, and are not told of us.

torch says whether a profile of it records, not what, nor that one began and ended a moment ago.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from otel_torchprof.recorder.torch_profiler import torch_profiler_records

_lock = threading.RLock()  # a signal handler may start a capture while its thread starts one
_begun = 0
_latest_traces_devices = True  # not known of one that began before anybody watched
_is_watching = False


def watch_device_profiles() -> None:
    """From now on torch's profiles are seen when they begin, for the life of the process; idempotent."""
    global _is_watching
    from torch.autograd import profiler

    with _lock:
        if _is_watching:
            return
        _is_watching = True
        # What makes CUPTI ready, in a warm-up, and what begins to record.
        for name in ("_prepare_trace", "_start_trace"):
            if original := getattr(profiler.profile, name, None):
                setattr(profiler.profile, name, _seen(original))


def device_profiles_begun() -> int:
    """How many of torch's profiles that trace CUDA devices have begun since they are watched."""
    return _begun


def device_profile_records() -> bool:
    """Whether one of them records now, as far as that is known: one that was not seen to begin counts."""
    return torch_profiler_records() and _latest_traces_devices


def _seen(original: Callable[[Any], None]) -> Callable[[Any], None]:
    @functools.wraps(original)
    def begin(profile: Any) -> None:
        global _begun, _latest_traces_devices
        activities = getattr(profile, "kineto_activities", None)
        _latest_traces_devices = activities is None or any(kind.name == "CUDA" for kind in activities)
        _begun += _latest_traces_devices
        original(profile)

    return begin
