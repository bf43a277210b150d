"""What a capture can record beside ops: each source is one file here, and works or fails alone."""

from __future__ import annotations

from collections.abc import Iterator

from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable

__all__ = ["Source", "SourceTarget", "SourceUnavailable", "wanted_sources"]


def wanted_sources(options: CaptureOptions) -> Iterator[Source]:
    """The sources that the options ask for, none of them started."""
    if options.profile_memory:
        from otel_torchprof.recorder.sources.memory import MemorySource
        from otel_torchprof.recorder.sources.tensor_roles import TensorRoles

        yield MemorySource(with_stack=options.with_stack)
        yield TensorRoles()
    if options.with_stack:
        from otel_torchprof.recorder.sources.python_frames import PythonFrames

        yield PythonFrames()
    if options.with_modules:
        from otel_torchprof.recorder.sources.modules import ModuleSource

        yield ModuleSource()
    if options.counters:
        from otel_torchprof.recorder.sources.counters import Counters

        yield Counters(options.counters, options.counter_scope)
    if device := _device(options):
        yield device


def _device(options: CaptureOptions) -> Source | None:
    from otel_torchprof.recorder.sources.device import DeviceSource

    traced = None
    if options.device == "on" or (options.device == "auto" and _torch_knows_cuda()):
        traced = DeviceSource(
            required=options.device == "on",
            kinds=options.device_kinds,
            whole_graphs=options.device_graphs == "whole",
        )
    if options.device_events is None:
        return traced
    from otel_torchprof.recorder.sources.device_events import TimedDevice

    return TimedDevice(options.device_events, traced)


def _torch_knows_cuda() -> bool:
    import torch

    return torch.version.cuda is not None
