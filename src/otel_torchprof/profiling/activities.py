"""Which kinds of activity a profile records, as torch names them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from otel_torchprof.recorder.capture_options import DeviceMode

_DEVICES = ("CUDA", "XPU", "MTIA", "HPU", "PrivateUse1")


def supported_activities() -> set[Any]:
    """The `ProfilerActivity`s that this torch supports."""
    from torch.autograd import _supported_activities

    return set(_supported_activities())


def parse_activities(activities: Iterable[Any]) -> tuple[set[Any], dict[Any, set[str]]]:
    """Activities, and the names of those wanted of them where a dictionary says so.

    Raises:
        TypeError: an item is neither an activity nor a dictionary of them.
        ValueError: an activity is given twice.
    """
    from torch.autograd import ProfilerActivity

    parsed: set[Any] = set()
    filters: dict[Any, set[str]] = {}
    for item in activities:
        if isinstance(item, dict):
            named = dict(item)
        elif isinstance(item, ProfilerActivity):
            named = {item: None}
        else:
            raise TypeError(f"activities must be ProfilerActivity or dict, not {type(item).__name__}")
        for activity, names in named.items():
            if activity in parsed:
                raise ValueError(f"{activity} is given more than once")
            parsed.add(activity)
            if names is not None:
                filters[activity] = set(names)
    return parsed, filters


def warn_of_missing(activities: set[Any]) -> None:
    """Warns once of activities that this torch, on this machine, has none of."""
    missing = _names(activities - supported_activities())
    if missing:
        warnings.warn(
            f"{', '.join(sorted(missing))} is not available here: this torch finds no such device, "
            "and none is recorded (otel-torchprof doctor says more)",
            UserWarning,
            stacklevel=4,  # who made the profile
        )


def with_use_cuda(activities: Iterable[Any] | None, use_cuda: bool) -> list[Any]:
    """Applies torch's deprecated `use_cuda` to activities."""
    from torch.autograd import ProfilerActivity

    warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=3)
    given = list(supported_activities() if activities is None else activities)
    if use_cuda:
        names = {name for item in given for name in (item if isinstance(item, dict) else (item,))}
        return given if ProfilerActivity.CUDA in names else [*given, ProfilerActivity.CUDA]
    return [item for item in given if item is not ProfilerActivity.CUDA]


def device_of(activities: set[Any]) -> str | None:
    """The kind of device among activities, as torch names it; None = none."""
    names = _names(activities)
    for name in _DEVICES:
        if name in names:
            return privateuse1_name() if name == "PrivateUse1" else name.lower()
    return None


def device_mode(activities: set[Any]) -> DeviceMode:
    """Whether our own recorder is to record the devices among activities: those that CUDA drives."""
    available = _names(activities & supported_activities())
    return "on" if "CUDA" in available and not _is_rocm() else "off"


def seen_by_torch_alone(activities: set[Any]) -> list[str]:
    """The devices among activities that are here, and that only torch's own profiler records."""
    available = _names(activities & supported_activities())
    ours = set() if _is_rocm() else {"CUDA"}
    return [name for name in _DEVICES if name in available - ours]


def has_cpu(activities: set[Any]) -> bool:
    """Whether what runs on threads is among activities."""
    return any(str(activity).endswith(".CPU") for activity in activities)


def activity_name(activity: Any) -> str:
    """The name of an activity: for devices of an extension `PrivateUse1`, whatever they are called."""
    from torch.autograd import ProfilerActivity

    if activity == ProfilerActivity.PrivateUse1:
        return "PrivateUse1"
    return str(activity).rpartition(".")[2]


def _names(activities: set[Any]) -> set[str]:
    return {activity_name(activity) for activity in activities}


def _is_rocm() -> bool:
    import torch

    return torch.version.hip is not None


def privateuse1_name() -> str:
    """What torch calls the devices of the extension that is loaded; "privateuseone" without one."""
    from torch._C import _get_privateuse1_backend_name

    return str(_get_privateuse1_backend_name())
