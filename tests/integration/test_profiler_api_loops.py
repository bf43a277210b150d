"""What is recorded of real programs: the same as torch's profiler records of the same loop."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch.profiler
from torch._C._profiler import _ExperimentalConfig

from otel_torchprof.profiler import ProfilerActivity, profile, record_function, schedule
from tests.support.profiled_loops import LOOPS, Loop, forked_script, replicas_in_threads

# Torch makes these of compiled code only while its own profiler runs.
_MARKERS = {"Pregraph bytecode", "AOTDispatcher Runtime Wrapper Prologue"}
# Torch writes no tensors where an op takes optional ones.
_OPTIONAL_TENSORS = {"aten::index", "aten::index_put_"}


def record(make: Any, loop: Loop) -> Any:
    loop()  # lazily made things are made
    with make(activities=[ProfilerActivity.CPU], record_shapes=True, with_flops=True) as prof:
        loop()
    return prof


def facts(prof: Any) -> Counter[Any]:
    """What is the same whenever the loop runs, of each event."""
    found: Counter[Any] = Counter()
    for event in prof.profiler.kineto_results.events():
        name = event.name()
        if name.startswith("profiler::") or name in _MARKERS:
            continue
        shapes = () if name in _OPTIONAL_TENSORS else (event.dtypes(), event.structured_input_shapes())
        found[
            name,
            event.scope(),
            event.sequence_nr() >= 0,
            event.fwd_thread_id() if event.sequence_nr() >= 0 else 0,
            event.is_user_annotation(),
            event.is_async(),
            str(event.shapes()),
            str(event.structured_input_strides()) if shapes else "",
            str(shapes),
        ] += 1
    return found


def nested(prof: Any) -> Counter[tuple[str, str]]:
    """Each event's name with that of what encloses it."""

    def walk(node: Any, parent: str) -> Iterator[tuple[str, str]]:
        if node.name.startswith("profiler::"):
            return
        if node.name not in _MARKERS:
            yield parent, node.name
            parent = node.name
        for child in node.children:
            yield from walk(child, parent)

    roots = prof.profiler.kineto_results.experimental_event_tree()
    return Counter(pair for root in roots for pair in walk(root, ""))


@pytest.mark.parametrize("make_loop", LOOPS)
def test_events_are_those_of_torch(make_loop: Callable[[], Loop]) -> None:
    loop = make_loop()
    theirs, ours = record(torch.profiler.profile, loop), record(profile, loop)
    assert facts(ours) == facts(theirs)
    assert nested(ours) == nested(theirs)
    numbers = [
        [
            event.sequence_nr
            for event in prof.events()
            if event.sequence_nr >= 0 and event.scope == 1  # of backward ops
        ]
        for prof in (theirs, ours)
    ]
    for of_one in numbers:
        of_one[:] = [number - min(of_one) for number in of_one]
    assert numbers[0] == numbers[1]


def test_threads_have_the_events_that_torch_sees_when_told_to_look() -> None:
    loop = replicas_in_threads()
    every_thread = _ExperimentalConfig(profile_all_threads=True)
    theirs = record(partial(torch.profiler.profile, experimental_config=every_thread), loop)
    ours = record(profile, loop)

    def without_thread_numbers(prof: Any) -> Counter[Any]:
        return Counter((*fact[:3], fact[3] > 0, *fact[4:]) for fact in facts(prof).elements())

    assert without_thread_numbers(ours) == without_thread_numbers(theirs)
    assert nested(ours) == nested(theirs)
    events = ours.profiler.kineto_results.events()
    forward = {(e.start_thread_id(), e.sequence_nr()) for e in events if e.scope() == 0}
    backward = [(e.fwd_thread_id(), e.sequence_nr()) for e in events if e.scope() == 1]
    assert len({thread for thread, _number in backward}) == 3  # of each replica, and of what joins them
    assert forward.issuperset(backward)


def test_forked_scripts_have_torchs_events() -> None:
    loop = forked_script()  # on which threads its parts run and end is a matter of luck
    names = [
        Counter(event.name() for event in record(make, loop).profiler.kineto_results.events())
        for make in (torch.profiler.profile, profile)
    ]
    assert names[0] == names[1]
    assert names[1]["<forked function>"] == 1


@pytest.mark.parametrize("make_loop", LOOPS)
def test_times_add_up(make_loop: Callable[[], Loop]) -> None:
    prof = record(profile, make_loop())
    events = prof.events()
    roots = [event for event in events if event.cpu_parent is None]
    for event in events:
        assert event.self_cpu_time_total >= 0
        for child in event.cpu_children:
            assert child.cpu_parent is event
            assert event.time_range.start <= child.time_range.start
            assert child.time_range.end <= event.time_range.end
    whole = sum(event.cpu_time_total for event in roots)
    assert sum(event.self_cpu_time_total for event in events) == pytest.approx(whole)
    averages = prof.key_averages()
    assert averages.self_cpu_time_total == pytest.approx(whole)
    assert sum(average.count for average in averages) == len(events)
    for average in averages:
        of_name = [event for event in events if event.name == average.key]
        assert average.count == len(of_name)
        assert average.self_cpu_time_total == pytest.approx(sum(e.self_cpu_time_total for e in of_name))
        # Recursion is not counted twice.
        outermost = [event for event in of_name if average.key not in names_around(event)]
        assert average.cpu_time_total == pytest.approx(sum(event.cpu_time_total for event in outermost))


def names_around(event: Any) -> set[str]:
    names: set[str] = set()
    while event.cpu_parent is not None:
        event = event.cpu_parent
        names.add(event.name)
    return names


@pytest.mark.parametrize("make_loop", LOOPS)
def test_averages_by_shape_are_those_of_the_events(make_loop: Callable[[], Loop]) -> None:
    prof = record(profile, make_loop())
    native = prof.key_averages(group_by_input_shape=True)
    one_by_one = prof.events().key_averages(group_by_input_shapes=True)

    def numbers(averages: Any) -> list[Any]:
        return sorted((a.key, str(a.input_shapes), a.count, a.flops) for a in averages)

    assert numbers(native) == numbers(one_by_one)
    self_us = {(a.key, str(a.input_shapes)): a.self_cpu_time_total for a in one_by_one}
    for average in native:
        expected = self_us[average.key, str(average.input_shapes)]
        assert average.self_cpu_time_total == pytest.approx(expected)


def test_nested_calls_of_one_name_are_all_kept() -> None:
    with profile() as prof, record_function("f"), record_function("f"), record_function("f"):
        torch.ones(1)
    (average,) = (average for average in prof.key_averages() if average.key == "f")
    assert average.count == 3
    (outermost,) = (event for event in prof.events() if event.name == "f" and event.cpu_parent is None)
    assert average.cpu_time_total == outermost.cpu_time_total


@pytest.mark.parametrize("by_shape", [False, True])
def test_everything_at_once_adds_up(by_shape: bool) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    prof = profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=0, active=2, repeat=1),
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
        with_modules=True,
        with_flops=True,
    )
    with prof:
        for _ in range(2):
            with record_function("work"):
                model(torch.randn(2, 3)).sum().backward()
            prof.step()
    events, averages = prof.events(), prof.key_averages(group_by_input_shape=by_shape)
    assert sum(average.count for average in averages) == len(events)
    for sum_of in ("self_cpu_time_total", "self_cpu_memory_usage", "flops"):
        of_averages = sum(getattr(average, sum_of) for average in averages)
        assert of_averages == pytest.approx(sum(getattr(event, sum_of) for event in events)), sum_of
    assert all(event.self_cpu_time_total >= 0 for event in events)
    names = {str(average.key) for average in averages}
    assert {"ProfilerStep*", "work", "nn.Module: Linear", "aten::addmm"} <= names
    assert any(re.search(r"linear\.py\(\d+\): Linear\.forward$", name) for name in names)


def test_the_scopes_that_are_missing_are_those_that_the_documentation_names() -> None:
    page = (Path(__file__).parents[2] / "docs" / "limits.md").read_text("utf-8")
    _before, _, listed = page.partition("Of torch 2.13 these are missing:")
    assert set(re.findall(r"^- `(.+)`$", listed, re.MULTILINE)) == _MARKERS
