"""What a capture can record here beside ops: a check or two a source, which tries the real thing.

Each says what works and what does not and, where a reading costs more than one would think, how much.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from collections.abc import Callable, Mapping
from itertools import groupby

from otel_torchprof.doctor.check import Check

HARDWARE_COUNTERS = (
    "cycles", "instructions", "branches", "branch-misses", "cache-references", "cache-misses",
    "L1-dcache-load-misses", "LLC-load-misses", "dTLB-load-misses",
)  # fmt: skip
SOFTWARE_COUNTERS = (
    "task-clock", "cpu-clock", "page-faults", "minor-faults", "major-faults", "context-switches",
    "cpu-migrations", "alignment-faults",
)  # fmt: skip


def check_software_counters(_environ: Mapping[str, str]) -> Check:
    return check_counters("software counters", SOFTWARE_COUNTERS)


def check_hardware_counters(_environ: Mapping[str, str]) -> Check:
    return check_counters("hardware counters", HARDWARE_COUNTERS)


def check_counters(name: str, counters: tuple[str, ...]) -> Check:
    """Tries to count. All at once, so that too many for the processor shows."""
    from otel_torchprof._native import core  # not at load: that it may be missing is another check's finding

    states, read_ns, reads_without_kernel = core.try_counters(list(counters))
    working = [counter for counter, counts, _remark in states if counts]
    by_remark = sorted((remark, counter) for counter, _counts, remark in states if remark)
    remarks = [
        f"{', '.join(counter for _remark, counter in same)}: {remark.partition('; ')[0]}"
        for remark, same in groupby(by_remark, lambda pair: pair[0])
    ]
    refused = [remark for _counter, counts, remark in states if not counts]
    way_out = "; ".join(dict.fromkeys(remark.partition("; ")[2] for remark in refused))
    if not working:
        return Check(name, "off", "; ".join(remarks), way_out)
    how = "without the kernel (rdpmc)" if reads_without_kernel else "by a system call"
    cost = f"reading them takes {read_ns / 1000:.1f} us {how}, twice for each user span"
    return Check(name, "ok", "; ".join([f"{', '.join(working)} count; {cost}", *remarks]), way_out)


def check_python_calls(_environ: Mapping[str, str]) -> Check:
    name = "Python calls"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return Check(name, "off", "this Python has no GIL", "use a Python with one to record with_stack")
    version = platform.python_version()
    shared = "cProfile interrupts it" if sys.version_info < (3, 12) else "cProfile works beside it"
    return Check(name, "ok", f"by the profile hook of Python {version}; {shared}")


def check_module_calls(_environ: Mapping[str, str]) -> Check:
    name = "calls of modules"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return Check(name, "off", "this Python has no GIL", "use a Python with one to record with_modules")
    return Check(name, "ok", "by a wrapper of nn.Module.__call__; what is compiled or scripted is one call")


SOURCE_CHECKS: tuple[Callable[[Mapping[str, str]], Check], ...] = (
    check_python_calls,
    check_module_calls,
    check_software_counters,
    check_hardware_counters,
)
