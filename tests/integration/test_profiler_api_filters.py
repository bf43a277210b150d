"""Dictionaries of activities, beside torch: which names there are, and what each leaves of a CPU loop."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._C._autograd import _prepare_profiler
from torch.profiler import ProfilerActivity

import otel_torchprof.profiler
from otel_torchprof.profiling.activity_filters import MEMBERS

CPU = ProfilerActivity.CPU
# Older ones take no dictionaries of activities: there is nothing to compare with.
TORCH_HAS_FILTERS = "activity_filter" in (_prepare_profiler.__doc__ or "")
needs_torchs_filters = pytest.mark.skipif(
    not TORCH_HAS_FILTERS, reason=f"torch {torch.__version__} takes no dictionaries of activities"
)
APIS = [torch.profiler, otel_torchprof.profiler] if TORCH_HAS_FILTERS else [otel_torchprof.profiler]
ALL_NAMES = [*sorted(frozenset[str]().union(*MEMBERS.values())), "CUDA_SYNC", "KERNEL", "cpu_op", ""]

# Asks torch in a process of its own, as it takes Kineto for devices that are not here.
ASK_TORCH = """
import json, sys
import torch
from torch.profiler import ProfilerActivity
from torch._C._autograd import _prepare_profiler
from torch._C._profiler import ProfilerConfig, ProfilerState, _ExperimentalConfig

config = ProfilerConfig(
    ProfilerState.KINETO, False, False, False, False, False, _ExperimentalConfig(), "",
)
known = {}
for activity, names in json.loads(sys.argv[1]).items():
    kind = getattr(ProfilerActivity, activity)
    known[activity] = []
    for name in names:
        try:
            _prepare_profiler(config, {ProfilerActivity.CPU, kind}, activity_filter={kind: {name}})
        except RuntimeError as error:
            assert f"Unknown or non-member activity type name: '{name}'" in str(error), error
        else:
            known[activity].append(name)
print(json.dumps(known))
"""


@needs_torchs_filters
def test_each_activity_has_the_names_that_torch_knows() -> None:
    asked = dict.fromkeys(MEMBERS, ALL_NAMES)
    done = subprocess.run(
        [sys.executable, "-c", ASK_TORCH, json.dumps(asked)],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {activity: set(names) for activity, names in json.loads(done.stdout).items()} == MEMBERS


def test_a_name_that_the_cpu_has_not_is_the_same_error() -> None:
    for api in APIS:
        with pytest.raises(RuntimeError, match="Unknown or non-member activity type name: 'GPU_MEMCPY'"):
            api.profile(activities=[{CPU: ["GPU_MEMCPY"]}]).start()


def test_names_of_what_is_not_here_are_not_looked_at() -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a device, so torch looks at its names")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for api in APIS:
            with api.profile(activities=[CPU, {ProfilerActivity.CUDA: ["NONE"]}]):
                torch.ones(1)


CATEGORIES = {"cpu_op", "user_annotation", "python_function", "cpu_instant_event"}


def work() -> None:
    with torch.profiler.record_function("outer"):
        torch.ones(2).cos()


def recorded(api: Any, names: list[str] | None, path: Path) -> tuple[Any, Counter[tuple[str, str]]]:
    """A profile of two steps, and what its trace shows of threads: counts by category and name."""
    with api.profile(
        activities=[CPU if names is None else {CPU: names}],
        schedule=api.schedule(wait=0, warmup=0, active=2, repeat=1),
        with_stack=True,
        profile_memory=True,
    ) as prof:
        for _ in range(2):
            work()
            prof.step()
    prof.export_chrome_trace(str(path))
    lines = json.loads(path.read_text())["traceEvents"]
    shown = (
        (line["cat"], line["name"]) for line in lines if line.get("cat") in CATEGORIES and line["ph"] != "e"
    )
    return prof, Counter(shown)


@needs_torchs_filters
@pytest.mark.parametrize(
    "names",
    [
        None,
        [],
        ["CPU_OP"],
        ["USER_ANNOTATION"],
        ["PYTHON_FUNCTION", "CPU_OP"],
        ["CPU_INSTANT_EVENT"],
        ["CUDA_RUNTIME", "EXTERNAL_CORRELATION"],
    ],
)
def test_a_trace_shows_what_is_named(names: list[str] | None, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _theirs, their_trace = recorded(torch.profiler, names, tmp_path / "theirs.json")
        ours, our_trace = recorded(otel_torchprof.profiler, names, tmp_path / "ours.json")
    for category in CATEGORIES:
        their_names, our_names = (
            Counter({name: count for (of, name), count in trace.items() if of == category})
            for trace in (their_trace, our_trace)
        )
        # Which Python calls there are differs, as those of the profiler itself do.
        if category == "python_function":
            assert bool(our_names) == bool(their_names)
        else:
            assert our_names == their_names, category
    types = {one.type() for one in ours.profiler.kineto_results.trace_activities()}
    assert types & CATEGORIES == {of for of, _name in our_trace} - {"cpu_instant_event"}


@pytest.mark.parametrize("api", APIS)
def test_events_hold_all_whatever_is_named(api: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for names in ([], ["USER_ANNOTATION"]):
            with api.profile(activities=[{CPU: names}]) as prof:
                work()
            counts = {average.key: average.count for average in prof.key_averages()}
            assert (counts["aten::cos"], counts["outer"]) == (1, 1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device's own work would be there")
@pytest.mark.filterwarnings("ignore:CUDA is not available here")
def test_without_the_cpu_neither_events_nor_trace_have_what_ran_on_it(tmp_path: Path) -> None:
    activities = [ProfilerActivity.CUDA]
    with otel_torchprof.profiler.profile(activities=activities, profile_memory=True) as prof:
        with otel_torchprof.span("scope"):
            torch.ones(2) + 1
        prof.step()
    assert (len(prof.events()), len(prof.key_averages())) == (0, 0)
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    assert prof.profiler is not None
    prof.profiler.kineto_results.save(tmp_path / "again.json")
    for name in ("trace.json", "again.json"):
        written = json.loads((tmp_path / name).read_text())["traceEvents"]
        assert [event for event in written if event["ph"] != "M"] == []
    assert len(prof.recording)  # what was recorded is there as before
