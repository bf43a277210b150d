"""What single events and averages have in common: formatted times, and names that torch calls deprecated."""

from __future__ import annotations

import warnings

from otel_torchprof.profiling.units import format_time


class FormattedTimesMixin:
    """Times per call and as text, from `*_time_total` (microseconds) and `count`."""

    count: int
    # Torch's tables write shares here; ours change nothing, so that they stay unknown.
    self_cpu_percent = -1
    total_cpu_percent = -1
    total_device_percent = -1

    def _time(self, name: str) -> float:
        value: float = getattr(self, name)
        return value

    @property
    def cpu_time(self) -> float:
        """Of one call, in microseconds."""
        return self._time("cpu_time_total") / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Of one call on the device, in microseconds."""
        return self._time("device_time_total") / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        """`cpu_time` with its unit."""
        return format_time(self.cpu_time)

    @property
    def device_time_str(self) -> str:
        """`device_time` with its unit."""
        return format_time(self.device_time)

    @property
    def cpu_time_total_str(self) -> str:
        """`cpu_time_total` with its unit."""
        return format_time(self._time("cpu_time_total"))

    @property
    def device_time_total_str(self) -> str:
        """`device_time_total` with its unit."""
        return format_time(self._time("device_time_total"))

    @property
    def self_cpu_time_total_str(self) -> str:
        """`self_cpu_time_total` with its unit."""
        return format_time(self._time("self_cpu_time_total"))

    @property
    def self_device_time_total_str(self) -> str:
        """`self_device_time_total` with its unit."""
        return format_time(self._time("self_device_time_total"))

    @property
    def cuda_time(self) -> float:
        """Deprecated name of `device_time`."""
        _warn_deprecated("cuda_time", "device_time")
        return self.device_time

    @property
    def cuda_time_total(self) -> float:
        """Deprecated name of `device_time_total`."""
        _warn_deprecated("cuda_time_total", "device_time_total")
        return self._time("device_time_total")

    @property
    def self_cuda_time_total(self) -> float:
        """Deprecated name of `self_device_time_total`."""
        _warn_deprecated("self_cuda_time_total", "self_device_time_total")
        return self._time("self_device_time_total")

    @property
    def self_cuda_memory_usage(self) -> int:
        """Deprecated name of `self_device_memory_usage`."""
        _warn_deprecated("self_cuda_memory_usage", "self_device_memory_usage")
        return int(self._time("self_device_memory_usage"))


def _warn_deprecated(name: str, instead: str) -> None:
    warnings.warn(f"`{name}` is deprecated, please use `{instead}` instead.", FutureWarning, stacklevel=3)
