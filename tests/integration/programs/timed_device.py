"""Profiles ops of a device that is timed by events, with ours and with torch's own, and prints both as JSON.

Arguments: the library of tests/support/native/timed_device.cpp, and the kind of device it is.
"""

from __future__ import annotations

import ctypes
import json
import sys
import types
from typing import Any

import torch

from otel_torchprof import autograd_profiler


def main(library: ctypes.CDLL, kind: str) -> None:
    if kind == "cuda":
        library.register_cuda()
        torch.cuda.is_available = lambda: True
        # A device of the test has no memory to wait for or to reset.
        torch.cuda.synchronize = lambda device=None: None
    else:
        library.register_privateuse1()
        torch.utils.rename_privateuse1_backend(kind)
        module = types.ModuleType(f"torch.{kind}")
        module.is_available = lambda: True  # type: ignore[attr-defined]
        module.synchronize = lambda: None  # type: ignore[attr-defined]
        setattr(torch, kind, module)
    ours = profiled(autograd_profiler.profile, library, kind)
    recording = ours._trace.recording
    torchs = profiled(torch.autograd.profiler.profile, library, kind)
    library.refuse(1)
    refused = profiled(autograd_profiler.profile, library, kind)._trace.recording
    print(
        json.dumps(
            {
                "ours": times(ours),
                "torchs": times(torchs),
                "metadata": recording.metadata["device"],
                "state": recording.metadata["sources"]["device"],
                "drops": dict(recording.drops),
                "table": ours.key_averages().table(sort_by="self_device_time_total"),
                "refused": refused.metadata["sources"]["device"],
                "refused_events": [refused.event_name(row) for row in range(len(refused))],
            }
        )
    )


def profiled(profile: Any, library: ctypes.CDLL, kind: str) -> Any:
    record_function = torch.autograd.profiler.record_function
    with profile(use_device=kind, use_kineto=False) as prof:
        for _ in range(2):
            with record_function("outer"):
                library.work_us(1000)
                with record_function("inner"):
                    library.work_us(2500)
                library.work_us(300)
        library.work_us(7)  # of nobody
    return prof


def times(prof: Any) -> dict[str, dict[str, float]]:
    return {
        event.key: {"total": event.device_time_total, "self": event.self_device_time_total}
        for event in prof.key_averages()
        if event.key in {"outer", "inner"} and str(event.device_type).endswith("CPU")
    }


if __name__ == "__main__":
    main(ctypes.CDLL(sys.argv[1]), sys.argv[2])
