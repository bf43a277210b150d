"""Work on CUDA devices: kernels, copies, fills, waits and the calls that cause them, through CUPTI."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from otel_torchprof._native import core
from otel_torchprof.recorder.cupti_location import cupti_paths
from otel_torchprof.recorder.device_wait import wait_for_devices
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable
from otel_torchprof.recorder.torch_device_profiles import (
    device_profile_records,
    device_profiles_begun,
    watch_device_profiles,
)

KINDS = ("kernel", "memcpy", "memset", "runtime", "driver", "sync", "overhead")
# For what was launched last. The program would wait for it soon anyway.
MAX_WAIT_S = 5.0

_DESCRIBED = ("cupti_version", "driver_version", "devices", "properties")
_DROPPED = "device_dropped"
_WAITS = "waits: the program has not used CUDA"
_UNCHANGED = "OTEL_PYTHON_TORCHPROF_DEVICE=off, or `device` of a profile, leaves it out"


class DeviceSource(Source):
    """Records what CUPTI tells of CUDA devices. One capture at a time has it.

    The recording's metadata say under `device` which CUPTI and driver it was, how much was recorded, and
    whether that is `complete`.

    Args:
        required: begin at once, and warn where there is no device. Else it begins as soon as the program has
            initialized CUDA, and loads no driver before: a process that has must not fork.
        kinds: those of `KINDS` to record; None = all.
        whole_graphs: a CUDA graph that is launched is one piece of work, not its nodes.
    """

    name = "device"

    def __init__(
        self, *, required: bool, kinds: Sequence[str] | None = None, whole_graphs: bool = False
    ) -> None:
        self._required = required
        self._kinds = KINDS if kinds is None else tuple(kinds)
        self._whole_graphs = whole_graphs
        self._target: SourceTarget | None = None
        self._cupti: dict[str, object] | None = None  # while it records
        self._is_complete = True
        self._torch_profiles = 0
        self._was_disturbed = False  # by one of torch

    def start(self, target: SourceTarget) -> None:
        """Begins to record, or to wait for CUDA.

        Raises:
            SourceUnavailable: CUPTI does not work here, or another profiler has it.
        """
        if self._required or _torch().cuda.is_initialized():
            self._begin(target)
        else:
            self.state = _WAITS
        self._target = target

    def step_begins(self) -> None:
        """Looks whether the program has begun to use CUDA, or torch.profiler."""
        if self._target is None:
            return
        if self._cupti is not None:
            self._look_for_torch_profiler()
        elif self.state == _WAITS and _torch().cuda.is_initialized():
            self._begin_late(self._target)

    def stop(self) -> None:
        """Waits for what was launched, up to `MAX_WAIT_S`, and ends recording."""
        target, self._target = self._target, None
        cupti, self._cupti = self._cupti, None
        if target is None or cupti is None:
            return
        self._look_for_torch_profiler()
        with failures.guard("the work on devices was not waited for"):
            self._is_complete &= wait_for_devices(MAX_WAIT_S, target.capture.set_own_device_thread)
        if not target.capture.stop_device():
            self._is_complete = False
            failures.report("work on devices is incomplete", SourceUnavailable("CUPTI did not return"))
        self._is_complete &= not target.capture.drops().get(_DROPPED)
        described = {**cupti, "complete": self._is_complete, "counts": target.capture.device_counts()}
        target.capture.add_metadata(json.dumps({"device": described}).encode())

    def _begin_late(self, target: SourceTarget) -> None:
        try:
            self._begin(target)
        except SourceUnavailable as error:
            self.state = f"off: {error}"
            failures.report("device is not recorded", error)
        else:
            self.state = "on"

    def _begin(self, target: SourceTarget) -> None:
        watch_device_profiles()
        if device_profile_records():
            raise SourceUnavailable(
                f"torch.profiler records, and CUPTI serves one at a time: stop that first; {_UNCHANGED}"
            )
        if _torch().version.hip is not None:
            raise SourceUnavailable(
                f'this torch is made for ROCm: profile(recorder="torch") records its devices; {_UNCHANGED}'
            )
        self._torch_profiles = device_profiles_begun()
        paths = cupti_paths(_torch().version.cuda)
        found = core.device_probe(paths)
        if not found["available"]:
            raise SourceUnavailable(f"{found['reason']}; {_UNCHANGED}")
        try:
            target.capture.start_device(paths, self._kinds, graph_level=self._whole_graphs)
        except RuntimeError as error:
            raise SourceUnavailable(f"{error}; {_UNCHANGED}") from None
        self._cupti = {name: found[name] for name in _DESCRIBED}

    def _look_for_torch_profiler(self) -> None:
        if not self._was_disturbed and device_profiles_begun() != self._torch_profiles:
            self._was_disturbed = True
            self._is_complete = False
            error = SourceUnavailable("torch.profiler was started meanwhile and takes a part of it")
            failures.report("work on devices is incomplete", error)


def _torch() -> Any:
    import torch

    return torch
