"""The older interface, `autograd_profiler`: arguments of both generations, results, and torch's own parts."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from otel_torchprof import autograd_profiler
from otel_torchprof.autograd_profiler import KinetoStepTracker, profile, record_function


def test_the_documented_example_gives_the_counts_of_torch() -> None:
    def run(module: Any) -> dict[str, int]:
        value = torch.randn((1, 1), requires_grad=True)
        with module.profile() as prof:
            for _ in range(10):
                result = value**2
                with module.record_function("label-z"):
                    result = result * 1
                result.backward()
        table = prof.key_averages().table(sort_by="self_cpu_time_total")
        assert "label-z" in table
        return {average.key: average.count for average in prof.key_averages()}

    ours = run(autograd_profiler)
    # Torch leaves out a call that is the only one in a call of the same name.
    for name, count in run(torch.autograd.profiler).items():
        assert ours[name] >= count
    assert ours["aten::pow"] >= 10
    assert ours["label-z"] == 10


def test_arguments_of_both_generations_are_taken() -> None:
    with profile(
        True,
        use_cuda=False,
        use_xpu=False,
        use_mtia=False,
        use_device=None,
        record_shapes=True,
        with_flops=True,
        profile_memory=True,
        with_stack=True,
        with_modules=True,
        use_kineto=True,
        use_cpu=True,
        experimental_config=None,
        acc_events=True,
    ) as prof:
        torch.mm(torch.ones(2, 3), torch.ones(3, 4))
    (event,) = (event for event in prof.function_events or () if event.name == "aten::mm")
    assert event.input_shapes == [[2, 3], [3, 4]]
    assert event.flops == 48
    assert event.cpu_memory_usage == 2 * 4 * 4
    assert event.stack


@pytest.mark.parametrize("name", ["cuda", "xpu", "mtia"])
def test_a_device_that_is_missing_is_warned_of(name: str) -> None:
    options: dict[str, Any] = {f"use_{name}": True}
    with pytest.warns() as said:
        prof = profile(**options)
    assert f"use_device = '{name}'" in str(said[0].message)
    assert said[0].category is FutureWarning
    if prof.use_device is None:
        assert str(said[1].message) == f"{name.upper()} is not available, so none is profiled"


def test_disabled_it_does_nothing() -> None:
    with profile(enabled=False) as prof:
        torch.ones(1)
    assert prof.function_events is None


def test_it_is_not_reentrant() -> None:
    prof = profile()
    with prof, pytest.raises(RuntimeError, match="not reentrant"):
        prof.__enter__()


def test_before_the_end_it_says_so() -> None:
    with profile() as prof:
        assert repr(prof) == str(prof) == "<unfinished torch.autograd.profile>"
        with pytest.raises(RuntimeError, match="leave the `with` block first"):
            prof.key_averages()
        torch.ones(1)
    assert "FunctionEvent" in repr(prof)
    assert "aten::ones" in str(prof)


def test_results_are_reached_from_the_profile_itself(tmp_path: Path) -> None:
    with profile(with_stack=True) as prof:
        torch.ones(2).cos()
    assert "aten::cos" in prof.table(row_limit=-1)
    total = prof.total_average()
    assert total.key == "Total"
    assert total.self_cpu_time_total == pytest.approx(prof.self_cpu_time_total)
    prof.export_chrome_trace(tmp_path / "trace.json", {"mine": 1})
    assert json.loads((tmp_path / "trace.json").read_text())["mine"] == 1
    prof.export_stacks(tmp_path / "stacks.txt")
    assert "aten::cos" in (tmp_path / "stacks.txt").read_text()
    assert prof.kineto_results is not None
    assert len(prof.trace_id) == 32


def test_a_negative_timeout_is_an_error() -> None:
    with pytest.raises(ValueError, match="must be non-negative"):
        profile(post_processing_timeout_s=-1)


def test_scopes_and_step_counts_are_torchs_own() -> None:
    assert record_function is torch.autograd.profiler.record_function
    assert KinetoStepTracker is torch.autograd.profiler.KinetoStepTracker
    KinetoStepTracker.init_step_count("test")
    try:
        before = KinetoStepTracker.current_step()
        assert KinetoStepTracker.increment_step("test") == before + 1
    finally:
        assert KinetoStepTracker.erase_step_count("test")
    assert not KinetoStepTracker.erase_step_count("test")


def test_a_scope_may_end_when_a_future_does() -> None:
    future: Any = torch.futures.Future()
    with profile() as prof:
        with record_function("asynchronous") as scope:
            done = scope._call_end_callbacks_on_future(future)
        torch.ones(2).cos()
        future.set_result(torch.ones(1))
        done.wait()
    events = prof.function_events
    assert events is not None
    (event,) = (event for event in events if event.name == "asynchronous")
    cosine = next(event for event in events if event.name == "aten::cos")
    assert event.time_range.end >= cosine.time_range.end


def test_arguments_of_scopes_are_taken() -> None:
    with profile(record_shapes=True) as prof, record_function("scope", "arguments"):
        pass
    assert [event.name for event in prof.function_events or ()] == ["scope"]


@pytest.mark.parametrize(
    "name",
    ["EnforceUnique", "MemRecordsAcc", "StringTable", "_is_profiler_enabled"],
)
def test_what_does_not_record_is_torchs_own(name: str) -> None:
    homes = (torch.autograd.profiler, torch.autograd.profiler_util)
    (theirs, *_more) = (getattr(home, name) for home in homes if hasattr(home, name))
    assert getattr(autograd_profiler, name) is theirs


def test_every_public_name_of_torchs_is_there() -> None:
    missing = [name for name in torch.autograd.profiler.__all__ if not hasattr(autograd_profiler, name)]
    assert missing == []
    with pytest.raises(AttributeError, match="has no attribute 'profil'"):
        _ = autograd_profiler.profil


def test_a_trace_id_is_the_callbacks_or_a_random_one() -> None:
    first, second = (profile().create_trace_id() for _ in range(2))
    assert first != second
    assert all(re.fullmatch("[0-9A-F]{32}", trace_id) for trace_id in (first, second))
    assert profile(custom_trace_id_callback=lambda: "mine").create_trace_id() == "mine"


def test_its_wishes_can_be_handed_to_torchs_own_recorder() -> None:
    theirs = torch.autograd.profiler.profile(record_shapes=True).config(create_trace_id=True)
    assert isinstance(profile(record_shapes=True).config(create_trace_id=True), type(theirs))


def test_activities_are_those_of_torch() -> None:
    def run(module: Any) -> list[tuple[str, str, int, int]]:
        with module.profile(use_kineto=True) as prof, record_function("scope"):
            torch.ones(2, 3).add(1)
        activities = prof.kineto_results.trace_activities()
        assert all(activity.duration() >= 0 for activity in activities)
        starts = [activity.timestamp() for activity in activities]
        assert starts == sorted(starts)
        assert abs(starts[0] - time.time_ns()) < 60 * 10**9
        assert {activity.linked_activity() for activity in activities} == {None}
        return [
            (activity.name(), activity.type(), activity.device_id(), activity.resource_id())
            for activity in activities
        ]

    ours = run(autograd_profiler)
    assert ("scope", "user_annotation") in {(name, kind) for name, kind, *_ in ours}
    if hasattr(torch._C._autograd._ProfilerResult, "trace_activities"):  # an older torch has none
        assert ours == run(torch.autograd.profiler)


def test_a_list_of_events_is_copied_into_an_ordinary_one() -> None:
    with profile() as prof:
        torch.ones(1)
    assert prof.function_events is not None
    copied = prof.function_events.copy()
    copied.clear()
    assert len(prof.function_events) > 0
