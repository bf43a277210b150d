"""What of its activities a profile collects and shows, where dictionaries of Kineto's names say so."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from otel_torchprof.profiling.activities import activity_name
from otel_torchprof.recording import EventKind

# What each activity is made of, by the names that torch takes.
MEMBERS: Mapping[str, frozenset[str]] = {
    "CPU": frozenset(
        {
            "CPU_INSTANT_EVENT",
            "CPU_OP",
            "CUDA_DRIVER",
            "CUDA_RUNTIME",
            "EXTERNAL_CORRELATION",
            "PRIVATEUSE1_DRIVER",
            "PRIVATEUSE1_RUNTIME",
            "PYTHON_FUNCTION",
            "USER_ANNOTATION",
            "XPU_DRIVER",
            "XPU_RUNTIME",
        }
    ),
    "CUDA": frozenset(
        {
            "CONCURRENT_KERNEL",
            "CUDA_DRIVER",
            "CUDA_RUNTIME",
            "GPU_MEMCPY",
            "GPU_MEMSET",
            "GPU_USER_ANNOTATION",
            "OVERHEAD",
        }
    ),
    "XPU": frozenset({"CONCURRENT_KERNEL", "GPU_MEMCPY", "GPU_MEMSET", "XPU_DRIVER", "XPU_RUNTIME"}),
    "MTIA": frozenset({"MTIA_CCP_EVENTS", "MTIA_COUNTERS", "MTIA_INSIGHT", "MTIA_RUNTIME"}),
    "HPU": frozenset({"HPU_OP"}),
    "PrivateUse1": frozenset(
        {
            "CONCURRENT_KERNEL",
            "GPU_MEMCPY",
            "GPU_MEMSET",
            "GPU_USER_ANNOTATION",
            "PRIVATEUSE1_DRIVER",
            "PRIVATEUSE1_RUNTIME",
        }
    ),
}

# Events that are there for one of these names; kinds that are not here always are.
_NAMES_OF_KIND: Mapping[EventKind, frozenset[str]] = {
    EventKind.OP: frozenset({"CPU_OP"}),
    EventKind.USER: frozenset({"USER_ANNOTATION"}),
    EventKind.PYTHON: frozenset({"PYTHON_FUNCTION"}),
    EventKind.PYTHON_C: frozenset({"PYTHON_FUNCTION"}),
    EventKind.MODULE: frozenset({"PYTHON_FUNCTION"}),
    EventKind.OTHER: frozenset({"CPU_INSTANT_EVENT"}),
    EventKind.RUNTIME: frozenset({"CUDA_RUNTIME", "MTIA_RUNTIME", "PRIVATEUSE1_RUNTIME", "XPU_RUNTIME"}),
    EventKind.DRIVER: frozenset({"CUDA_DRIVER", "PRIVATEUSE1_DRIVER", "XPU_DRIVER"}),
    EventKind.KERNEL: frozenset({"CONCURRENT_KERNEL", "HPU_OP", "MTIA_CCP_EVENTS"}),
    EventKind.MEMCPY: frozenset({"GPU_MEMCPY"}),
    EventKind.MEMSET: frozenset({"GPU_MEMSET"}),
    EventKind.ANNOTATION: frozenset({"GPU_USER_ANNOTATION"}),
    EventKind.OVERHEAD: frozenset({"OVERHEAD"}),
}
# Those that torch, too, has from elsewhere than Kineto: its events have them whatever is named, its traces
# only where they are.
_OF_THREADS = frozenset(
    {
        EventKind.OP,
        EventKind.USER,
        EventKind.PYTHON,
        EventKind.PYTHON_C,
        EventKind.MODULE,
        EventKind.OTHER,
    }
)
_DEVICE_SOURCE_KINDS: Mapping[str, str] = {
    "CONCURRENT_KERNEL": "kernel",
    "GPU_MEMCPY": "memcpy",
    "GPU_MEMSET": "memset",
    "CUDA_RUNTIME": "runtime",
    "CUDA_DRIVER": "driver",
    "OVERHEAD": "overhead",
}


class ActivityFilter:
    """The names that are wanted: of an activity with a dictionary those in it, of any other all.

    A name that two activities have, as `CUDA_RUNTIME`, is wanted if either of them wants it.

    Args:
        activities: by their names, as `CPU`.
        names: of those with a dictionary.
    """

    def __init__(self, activities: Set[str], names: Mapping[str, Set[str]]) -> None:
        self._has_cpu = "CPU" in activities
        self._names = {activity: names[activity] for activity in names if activity in activities}
        self._wanted = frozenset[str]().union(
            *(self._names.get(activity, MEMBERS[activity]) for activity in activities if activity in MEMBERS)
        )

    def check(self) -> None:
        """Looks whether an activity is asked for what it has not.

        Raises:
            RuntimeError: it is; it names what there is.
        """
        for activity, names in self._names.items():
            known = MEMBERS.get(activity, frozenset())
            for name in sorted(names - known):
                raise RuntimeError(
                    f"Unknown or non-member activity type name: '{name}': "
                    f"{activity} has {', '.join(sorted(known))}"
                )

    @property
    def device_kinds(self) -> tuple[str, ...] | None:
        """What to collect of CUDA devices; None = all there is, as without a dictionary."""
        if "CUDA" not in self._names:
            return None
        return tuple(kind for name, kind in _DEVICE_SOURCE_KINDS.items() if name in self._wanted)

    @property
    def left_out_of_traces(self) -> frozenset[EventKind]:
        """The kinds of events that a trace does not show.

        What was recorded of an activity may hold those of another, as ops tell which of them launched what.
        """
        if self._has_cpu and not self._names:
            return frozenset()
        return frozenset(kind for kind, names in _NAMES_OF_KIND.items() if not names & self._wanted)

    @property
    def left_out_of_events(self) -> frozenset[EventKind]:
        """The kinds of events that events and averages do not hold."""
        return self.left_out_of_traces - _OF_THREADS


def make_filter(activities: Set[Any], names: Mapping[Any, Set[str]]) -> ActivityFilter:
    """A filter of `ProfilerActivity`s."""
    return ActivityFilter(
        {activity_name(activity) for activity in activities},
        {activity_name(activity): wanted for activity, wanted in names.items()},
    )
