"""What a capture records, beside the ops themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CounterScope = Literal["span", "op"]
DeviceMode = Literal["auto", "off", "on"]
DeviceGraphs = Literal["nodes", "whole"]
DeviceEvents = Literal["cuda", "privateuse1"]
DEFAULT_BUFFER_SIZE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureOptions:
    """How a capture is configured.

    Attributes:
        record_shapes: shapes, dtypes, strides and concrete values of the inputs of ops.
        profile_memory: every allocation and free.
        with_stack: Python calls.
        with_modules: calls of `nn.Module`s, with their paths.
        counters: names of perf events, as `perf list` has them.
        counter_scope: over what they are counted beside steps and threads: "span" = user spans, "op" = those
            and every op.
        device: work on CUDA devices: "on" from the start, with a warning where there is none, "auto" as soon
            as the program uses CUDA.
        device_graphs: a CUDA graph that is launched is recorded as its "nodes", or as a "whole".
        device_kinds: what of it, as `recorder.sources.device.KINDS`; None = all of that.
        device_events: the kind of device whose work is timed op by op, by events in its streams, where it
            cannot be traced; None = it is not recorded then.
        buffer_size_bytes: bound on the recording; what does not fit is dropped and counted.
    """

    record_shapes: bool = False
    profile_memory: bool = False
    with_stack: bool = False
    with_modules: bool = False
    counters: tuple[str, ...] = ()
    counter_scope: CounterScope = "span"
    device: DeviceMode = "auto"
    device_graphs: DeviceGraphs = "nodes"
    device_kinds: tuple[str, ...] | None = None
    device_events: DeviceEvents | None = None
    buffer_size_bytes: int = DEFAULT_BUFFER_SIZE_BYTES
