"""Numbers as torch's tables write them."""

from __future__ import annotations

import math

_US_PER_S = 1_000_000.0
_US_PER_MS = 1000.0
_BYTE_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_FLOP_UNITS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


def format_time(time_us: float, unit: str | None = None) -> str:
    """Microseconds with three decimals, in `unit` ("s", "ms", "us") or the largest that fits."""
    if unit == "s" or (unit not in {"ms", "us"} and time_us >= _US_PER_S):
        return f"{time_us / _US_PER_S:.3f}s"
    if unit == "ms" or (unit != "us" and time_us >= _US_PER_MS):
        return f"{time_us / _US_PER_MS:.3f}ms"
    return f"{time_us:.3f}us"


def format_share(part: float, whole: float) -> str:
    """A percentage; `NaN` of nothing."""
    return f"{part * 100.0 / whole:.2f}%" if whole else "NaN"


def format_memory(size_bytes: int) -> str:
    """Bytes in the largest unit that fits."""
    for unit_bytes, unit in _BYTE_UNITS:
        if abs(size_bytes) >= unit_bytes:
            return f"{size_bytes / unit_bytes:.2f} {unit}"
    return f"{size_bytes} B"


def flops_unit(least_flops: int) -> tuple[float, str]:
    """Factor and name of the unit in which the least positive value of a column is at least 1."""
    power = int(max(0.0, min(math.log10(least_flops) / 3, len(_FLOP_UNITS) - 1)))
    return 1000.0**-power, _FLOP_UNITS[power]
