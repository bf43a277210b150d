"""docs/torch-profiler-compatibility.md: every public name of torch's profilers, and how ours compares.

`python -m tests.support.torch_compatibility` writes the page anew.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.profiler
from torch.autograd import profiler_util

import otel_torchprof.profiler
from otel_torchprof import autograd_profiler

PAGE = Path(__file__).parents[2] / "docs" / "torch-profiler-compatibility.md"

_INTRODUCTION = """\
# What is the same as in torch.profiler, and what is not

Every public name, parameter and attribute of `torch.profiler` and `torch.autograd.profiler` of torch 2.13,
beside `otel_torchprof.profiler` and `otel_torchprof.autograd_profiler`. A test compares this page with both.
[torch-profiler-api.md](torch-profiler-api.md) says how to use it.
"""

# Where ours is not the same, and why.
_NOTES = {
    "profile(activities)": ("differs", "without `CPU` only devices are shown"),
    "profile(schedule)": (
        "better",
        "torch's own schedules are taken too; a cycle that had only begun is not delivered",
    ),
    "profile(on_trace_ready)": (
        "better",
        "`prof.is_partial` tells that `stop()` cut the cycle off; what it raises loses no cycle",
    ),
    "profile(profile_memory)": (
        "better",
        "of all threads, and frees outside ops are `[memory]` events of their own",
    ),
    "profile(with_stack)": ("better", "of all threads; calls of the profiler itself are part of neither"),
    "profile(with_flops)": ("better", "more ops have a formula, and no work is counted twice"),
    "profile(with_modules)": ("better", "of eager models too, with paths"),
    "profile(experimental_config)": ("differs", "taken and without effect: they are settings of Kineto"),
    "profile(post_processing_timeout_s)": (
        "differs",
        "taken and without effect: nothing is processed afterwards",
    ),
    "profile.action_map": (
        "differs",
        "what is done between two steps, to be read: changing it changes nothing",
    ),
    "profile.step_rec_fn": (
        "differs",
        "has the step's name and begins nothing: a step is an event of its own",
    ),
    "profile.events": (
        "better",
        "of all threads; all nested events of one name are kept; each is made when asked for",
    ),
    "profile.key_averages": (
        "better",
        "counted natively; a call in a call of the same name adds nothing to the total",
    ),
    "profile.export_chrome_trace": ("better", "any name, nested slices, and as often as wanted"),
    "profile.export_stacks": (
        "better",
        "equal stacks are added up; ops are frames too, so it works without stacks",
    ),
    "profile.export_memory_timeline": (
        "better",
        "parameters, gradients and optimizer state are known exactly",
    ),
    "profile.add_metadata": ("better", "any text makes a valid trace"),
    "profile.add_metadata_json": ("better", "what is no JSON is kept as text"),
    "autograd.profile(experimental_config)": ("differs", "taken and without effect"),
    "autograd.profile(use_kineto)": (
        "differs",
        "CUPTI records CUDA either way, and events around each op time it where CUPTI cannot; an extension's "
        "devices are timed by events with False, as in torch",
    ),
    "autograd.profile(post_processing_timeout_s)": ("differs", "taken and without effect"),
    "autograd.profile.config": ("differs", "made when asked for: nothing here reads it"),
    "autograd.emit_itt": ("better", "of all threads; by the package `ittapi`, without it a warning"),
    "autograd.emit_nvtx": (
        "better",
        "of all threads, `stashed seq` in backward passes; by the package `nvtx`, without it a warning",
    ),
    "autograd.load_nvprof": ("better", "databases of all versions, by the importer"),
    "autograd.parse_nvprof_trace": ("better", "databases of all versions, by the importer"),
    "kineto_results.trace_activities": (
        "differs",
        "without arrows and metadata: see `recording.links`",
    ),
    "EventList.export_stacks": ("better", "equal stacks are added up"),
}


class Row(NamedTuple):
    """A name of torch's, and whether ours has it."""

    name: str
    is_there: bool


def rows() -> Iterator[Row]:
    """Everything public, in the order of the page."""
    for name in torch.profiler.__all__:
        yield Row(name, hasattr(otel_torchprof.profiler, name))
    yield Row("itt", hasattr(otel_torchprof.profiler, "itt"))
    yield from _parameters("schedule", torch.profiler.schedule, otel_torchprof.profiler.schedule)
    yield from _parameters(
        "tensorboard_trace_handler",
        torch.profiler.tensorboard_trace_handler,
        otel_torchprof.profiler.tensorboard_trace_handler,
    )
    theirs: Any = torch.profiler.profile
    ours: Any = otel_torchprof.profiler.profile
    yield from _parameters("profile", theirs, ours)
    yield from _methods("profile", theirs, ours)
    their_prof, our_prof = _recorded(theirs), _recorded(ours)
    yield from _attributes("profile", their_prof, our_prof, theirs)
    their_class, our_class = torch.autograd.profiler.profile, autograd_profiler.profile
    for name in torch.autograd.profiler.__all__:
        yield Row(f"autograd.{name}", hasattr(autograd_profiler, name))
    yield from _parameters("autograd.profile", their_class, our_class)
    yield from _methods("autograd.profile", their_class, our_class)
    yield from _methods("EventList", profiler_util.EventList, autograd_profiler.EventList)
    yield from _parameters("FunctionEvent", profiler_util.FunctionEvent, autograd_profiler.FunctionEvent)
    yield from _attributes("FunctionEvent", their_prof.events()[0], our_prof.events()[0], None)
    yield from _attributes("FunctionEventAvg", their_prof.key_averages()[0], our_prof.key_averages()[0], None)
    their_results, our_results = (prof.profiler.kineto_results for prof in (their_prof, our_prof))
    yield from _attributes("kineto_results", their_results, our_results, None)
    their_event, our_event = their_results.events()[0], our_results.events()[0]
    yield from _attributes("kineto_results.events()", their_event, our_event, None)
    their_node = their_results.experimental_event_tree()[0]
    our_node = our_results.experimental_event_tree()[0]
    yield from _attributes("kineto_results.experimental_event_tree()", their_node, our_node, None)


def page() -> str:
    """The page as it should be."""
    lines = [_INTRODUCTION, "| torch | here | |", "| --- | --- | --- |"]
    for row in rows():
        state, why = _NOTES.get(row.name, ("same", ""))
        lines.append(f"| `{row.name}` | {state} | {why} |")
    return "\n".join(lines) + "\n"


def unexplained() -> list[str]:
    """Names that ours lacks without a note."""
    return [
        row.name for row in rows() if not row.is_there and "missing" not in _NOTES.get(row.name, ("", ""))[1]
    ]


def stale_notes() -> list[str]:
    """Notes on names that torch does not have, or that say missing of what is there."""
    found = {row.name: row.is_there for row in rows()}
    return [
        name
        for name, (_state, why) in _NOTES.items()
        if name not in found or ("missing" in why) == found[name]
    ]


def _recorded(make: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with make(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
            torch.ones(1)
    return prof


def _parameters(name: str, theirs: Any, ours: Any) -> Iterator[Row]:
    known = inspect.signature(ours).parameters
    for parameter in inspect.signature(theirs).parameters:
        yield Row(f"{name}({parameter})", parameter in known)


def _methods(name: str, theirs: Any, ours: Any) -> Iterator[Row]:
    for method in dir(theirs):
        if not method.startswith("_") and callable(getattr(theirs, method)):
            yield Row(f"{name}.{method}", hasattr(ours, method))


def _attributes(name: str, theirs: Any, ours: Any, listed: Any) -> Iterator[Row]:
    for attribute in dir(theirs):
        is_method = listed is not None and callable(getattr(listed, attribute, None))
        if not attribute.startswith("_") and not is_method:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                yield Row(f"{name}.{attribute}", hasattr(ours, attribute))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
