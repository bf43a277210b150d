"""Devices whose work nothing traces: each op's time there, by events in the device's streams around it."""

from __future__ import annotations

import json

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources.device import DeviceSource
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable

_NAMES = {"cuda": "CUDA", "privateuse1": "PrivateUse1"}


class TimedDevice(Source):
    """Times the work of ops by events, as torch's older profiler does, where it cannot be traced.

    A recording has one piece of work for each stretch of an op without another inside it, named as the op.
    Its metadata say so: `device` has `timed_by` = "events".

    Args:
        kind: of device: "cuda" or "privateuse1".
        traced: what traces it, which is tried first; None = nothing does.
    """

    name = "device"

    def __init__(self, kind: str, traced: DeviceSource | None) -> None:
        self._kind = kind
        self._traced = traced
        self._target: SourceTarget | None = None  # while it times

    def start(self, target: SourceTarget) -> None:
        """Begins to record.

        Raises:
            SourceUnavailable: the device can neither be traced nor timed.
        """
        if self._traced is None:
            self._begin(target, "this torch traces no such device")
            return
        try:
            self._traced.start(target)
        except SourceUnavailable as error:
            self._traced = None
            self._begin(target, str(error))
            failures.report("ops are timed by CUDA events, with less of the device", error)

    def step_begins(self) -> None:
        """Looks what has become of the device."""
        if self._traced is not None:
            self._traced.step_begins()

    def stop(self) -> None:
        """Ends recording, once the device has done what it was given; for a bounded time."""
        if self._traced is not None:
            self._traced.stop()
        target, self._target = self._target, None
        if target is None:
            return
        target.capture.stop_device()
        described = {"timed_by": "events", "pieces": target.capture.device_counts()["kernels"]}
        target.capture.add_metadata(json.dumps({"device": described}).encode())

    def _begin(self, target: SourceTarget, why: str) -> None:
        events = target.bridge.device_events(self._kind)
        if not events:
            raise SourceUnavailable(f"{why}; and torch has no events of {_NAMES[self._kind]} devices here")
        try:
            target.capture.start_device_events(events)
        except RuntimeError as error:
            raise SourceUnavailable(f"{why}; and {error}") from None
        self._target = target
        self.state = f"timed by events: {why}"
