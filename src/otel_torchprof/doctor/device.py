"""What can be recorded of CUDA devices here: CUPTI, its names in Python, and counters on the device."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from importlib import metadata
from typing import Any

from otel_torchprof.config import SettingError, Settings
from otel_torchprof.doctor.check import Check, State
from otel_torchprof.environment_variables import OTEL_PYTHON_TORCHPROF_DEVICE
from otel_torchprof.recorder.cupti_location import cupti_paths

_TORCH_PIN = "nvidia-cuda-cupti"
_NAMES_WAY_OUT = "pip install 'otel-torchprof[cuda]'"


def check_cupti(environ: Mapping[str, str]) -> Check:
    """Loads the driver and CUPTI as a recording would, and subscribes for a moment."""
    from otel_torchprof._native import core  # not at load: that it may be missing is another check's finding

    name = "CUDA devices"
    if _is_off(environ):
        return Check(name, "off", f"turned off by {OTEL_PYTHON_TORCHPROF_DEVICE}", "unset it")
    return describe_cupti(core.device_probe(cupti_paths(_cuda_version(), environ), try_subscribe=True))


def describe_cupti(found: Mapping[str, Any]) -> Check:
    """What a probe found: see `device_probe` of the native core."""
    name = "CUDA devices"
    parts = [
        *([f"driver for CUDA {_cuda(found['driver_version'])}"] if found["driver_version"] else []),
        *([f"CUPTI {_cupti(found['cupti_version'])}: {found['library']}"] if found["cupti_version"] else []),
        *(
            [f"{found['devices']} device{'s' if found['devices'] != 1 else ''}"]
            if found["devices"] >= 0
            else []
        ),
    ]
    if not found["available"]:
        cause, _, way_out = found["reason"].partition("; ")
        # Without a device nothing is asked for that cannot work. A driver that does not start hides them.
        state: State = "missing" if found["driver_version"] and found["devices"] != 0 else "off"
        return Check(name, state, "; ".join([cause, *parts]), way_out)
    if found["subscriber"]:
        detail = "; ".join([f"{found['subscriber']} has CUPTI, which serves one at a time", *parts])
        return Check(name, "missing", detail, "record without it")
    return Check(name, "ok", "; ".join(parts))


def check_cupti_python(_environ: Mapping[str, str]) -> Check:
    """NVIDIA's own description of CUPTI in Python; recording does without."""
    name = "cupti-python"
    if importlib.util.find_spec("cupti") is None:
        return Check(
            name, "off", "not installed, and not needed: it has CUPTI's names and records", _NAMES_WAY_OUT
        )
    module = importlib.import_module("cupti.cupti")
    calls = len(module.runtime_api_trace_cbid) + len(module.driver_api_trace_cbid)
    kinds = len(module.ActivityKind)
    return Check(name, "ok", f"{_versions()}; names {calls:,} calls and {kinds} kinds of records")


def check_device_counters(_environ: Mapping[str, str]) -> Check:
    """Counters on the device itself are read by sampling, which takes the lock of the fleet's monitoring."""
    name = "counters of CUDA devices"
    missing = [
        *([] if _has_module("cupti") else ["cupti-python is not installed"]),
        *([] if _has_module("cupti.pm_sampling") else ["no pm_sampling, which came with cupti-python 13.4"]),
    ]
    reason = "; ".join(missing) or "this version does not read them"
    return Check(
        name,
        "off",
        f"not available: {reason}; sampling them takes the lock of other monitoring such as DCGM",
        "take them from DCGM, or from Nsight Compute for single kernels",
    )


def _is_off(environ: Mapping[str, str]) -> bool:
    try:
        return Settings.from_options({}, environ).device == "off"
    except SettingError:  # another check's finding
        return False


def _cuda_version() -> str | None:
    """Of the torch that is installed, without importing it: `2.11.0+cu130` is made for CUDA 13.0."""
    try:
        _, _, built_for = metadata.version("torch").partition("+cu")
    except metadata.PackageNotFoundError:
        return None
    return f"{built_for[:-1]}.{built_for[-1]}" if built_for.isdecimal() else None


def _versions() -> str:
    found = []
    for distribution in ("cupti-python", _TORCH_PIN, f"{_TORCH_PIN}-cu12"):
        try:
            found.append(f"{distribution} {metadata.version(distribution)}")
        except metadata.PackageNotFoundError:
            continue
    return ", ".join(found)


def _has_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _cuda(version: int) -> str:
    """13000 is 13.0."""
    return f"{version // 1000}.{version % 1000 // 10}"


def _cupti(version: int) -> str:
    """Since 13.0 as 130000; before, numbers that say little, such as 26 of CUDA 12.8."""
    return f"{version // 10_000}.{version % 10_000 // 100}" if version >= 10_000 else f"API {version}"


DEVICE_CHECKS: tuple[Callable[[Mapping[str, str]], Check], ...] = (
    check_cupti,
    check_cupti_python,
    check_device_counters,
)
