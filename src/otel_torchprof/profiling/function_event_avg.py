"""Many events as one, in the shape of torch's `FunctionEventAvg`. Times are microseconds."""

from __future__ import annotations

from typing import Any

from otel_torchprof.profiling.event_times import FormattedTimesMixin
from otel_torchprof.profiling.function_event import FunctionEvent

_SUMS = (
    "count", "cpu_time_total", "device_time_total", "self_cpu_time_total", "self_device_time_total",
    "cpu_memory_usage", "device_memory_usage", "self_cpu_memory_usage", "self_device_memory_usage",
)  # fmt: skip
_COMMON = (
    "node_id", "is_async", "is_remote", "use_device", "input_shapes", "overload_name", "stack", "scope",
    "device_type", "is_legacy", "is_user_annotation", "cpu_parent", "cpu_children",
)  # fmt: skip


class FunctionEventAvg(FormattedTimesMixin):
    """Sums over events with one key; attributes are those of torch's class of this name."""

    def __init__(self) -> None:
        from torch.autograd import DeviceType

        self.key: str | None = None
        self.count = 0
        self.cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.self_device_time_total: float = 0
        self.cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.self_device_memory_usage = 0
        self.flops = 0
        self.node_id = 0
        self.is_async = False
        self.is_remote = False
        self.is_legacy = False
        self.is_user_annotation = False
        self.use_device: str | None = None
        self.device_type: Any = DeviceType.CPU
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.cpu_children: list[FunctionEvent] | None = None
        self.cpu_parent: FunctionEvent | None = None

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Adds an event or an average with the same key.

        Raises:
            AssertionError: it has another key.
        """
        if self.key is None:
            self.key = other.key
            for name in _COMMON:
                setattr(self, name, getattr(other, name))
        if other.key != self.key:
            raise AssertionError(f"{other.key!r} is not {self.key!r}: only one key is averaged")
        return self.add_numbers(other)

    def add_numbers(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Adds the numbers of an event or average, whatever its key."""
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.flops += other.flops or 0
        return self

    __iadd__ = add

    def __repr__(self) -> str:
        device = self.use_device or "cuda"
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} self_{device}_time={self.self_device_time_total_str} "
            f"{device}_time={self.device_time_str} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} {device}_memory_usage={self.device_memory_usage}>"
        )
