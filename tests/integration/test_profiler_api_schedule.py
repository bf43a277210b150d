"""`profile` with a schedule: cycles, steps, deliveries, and what happens when the program breaks off."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch.profiler

import otel_torchprof
from otel_torchprof import Recording
from otel_torchprof.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    schedule,
    supported_activities,
)
from otel_torchprof.recorder.capture import Capture

CPU = [ProfilerActivity.CPU]


def counts_of(prof: Any) -> dict[str, int]:
    return {average.key: average.count for average in prof.key_averages()}


def deliveries(make: Any, steps: int, **lengths: int) -> list[tuple[int, dict[str, int]]]:
    """Step number and counts by name, of each delivered cycle of a loop that does one `cos` a step."""
    found: list[tuple[int, dict[str, int]]] = []

    def deliver(prof: Any) -> None:
        found.append((prof.step_num, counts_of(prof)))

    scheduled = torch.profiler.schedule(**lengths)  # ours and torch's are told apart elsewhere
    values = torch.ones(2)
    with make(activities=CPU, schedule=scheduled, on_trace_ready=deliver) as prof:
        for _ in range(steps):
            values.cos()
            prof.step()
    return found


@pytest.mark.parametrize(
    ("steps", "lengths"),
    [
        (6, {"wait": 1, "warmup": 1, "active": 1}),
        (8, {"wait": 0, "warmup": 1, "active": 3, "repeat": 2}),
        (9, {"wait": 1, "warmup": 1, "active": 2, "skip_first": 1, "repeat": 1}),
        (3, {"wait": 1, "warmup": 1, "active": 1, "skip_first": 5}),
    ],
)
def test_complete_cycles_are_those_of_torch(steps: int, lengths: dict[str, int]) -> None:
    assert deliveries(profile, steps, **lengths) == deliveries(torch.profiler.profile, steps, **lengths)


def test_a_cycle_that_had_only_begun_is_not_delivered() -> None:
    lengths = {"wait": 0, "warmup": 1, "active": 2, "repeat": 0}
    ours = deliveries(profile, 7, **lengths)
    assert [step for step, _counts in ours] == [3, 6]
    # Torch delivers a third one with no op in it.
    theirs = deliveries(torch.profiler.profile, 7, **lengths)
    assert theirs[:2] == ours
    assert theirs[2][1] == {"ProfilerStep*": 1}


def test_no_step_delivers_nothing() -> None:
    assert deliveries(profile, 0, wait=0, warmup=0, active=1) == []


def test_stop_within_a_cycle_delivers_what_there_was_and_says_so() -> None:
    found: list[tuple[bool, dict[str, int]]] = []
    prof = profile(
        activities=CPU,
        schedule=schedule(wait=0, warmup=0, active=3),
        on_trace_ready=lambda prof: found.append((prof.is_partial, counts_of(prof))),
    )
    with prof:
        torch.ones(2).cos()
        for _ in range(3):
            prof.step()
            torch.ones(2).cos()
    (complete, counts), (partial, rest) = found
    assert (complete, counts["aten::cos"], counts["ProfilerStep*"]) == (False, 3, 3)
    assert (partial, rest["aten::cos"], rest["ProfilerStep*"]) == (True, 1, 1)


def test_without_a_schedule_the_block_is_one_complete_cycle() -> None:
    found: list[bool] = []
    with profile(activities=CPU, on_trace_ready=lambda prof: found.append(prof.is_partial)) as prof:
        torch.ones(2).cos()
        prof.step()
        torch.ones(2).cos()
    assert found == [False]
    assert "ProfilerStep*" not in counts_of(prof)
    assert counts_of(prof)["aten::cos"] == 2


def test_an_exception_in_the_block_delivers_the_cycle_as_partial() -> None:
    found: list[bool] = []

    def fail() -> None:
        with profile(
            schedule=schedule(wait=0, warmup=0, active=2),
            on_trace_ready=lambda prof: found.append(prof.is_partial),
        ):
            torch.ones(2).cos()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert found == [True]


def test_what_a_handler_raises_comes_out_and_the_next_cycle_is_recorded() -> None:
    found: list[dict[str, int]] = []

    def deliver(prof: Any) -> None:
        found.append(counts_of(prof))
        if len(found) == 1:
            raise ZeroDivisionError

    with profile(schedule=schedule(wait=0, warmup=0, active=1), on_trace_ready=deliver) as prof:
        torch.ones(2).cos()
        with pytest.raises(ZeroDivisionError):
            prof.step()
        torch.ones(2).sin()
        prof.step()
    assert [("aten::cos" in counts, "aten::sin" in counts) for counts in found] == [
        (True, False),
        (False, True),
    ]


def test_a_step_is_an_event_that_encloses_its_ops() -> None:
    prof = profile(activities=CPU, schedule=schedule(wait=0, warmup=0, active=2, repeat=1))
    with prof:
        for _ in range(2):
            torch.ones(2).cos()
            prof.step()
    steps = [event for event in prof.events() if event.name == "ProfilerStep*"]
    assert [event.trace_name for event in steps] == ["ProfilerStep#0", "ProfilerStep#1"]
    for event in steps:
        assert [child.name for child in event.cpu_children] == ["aten::ones", "aten::cos"]
        assert event.cpu_parent is None
        inside = sum(child.cpu_time_total for child in event.cpu_children)
        assert event.self_cpu_time_total == pytest.approx(event.cpu_time_total - inside)
    assert [step.number for step in prof.recording.steps] == [0, 1]


def test_a_step_lies_in_the_scope_around_it() -> None:
    prof = profile(activities=CPU, schedule=schedule(wait=0, warmup=0, active=9))
    with prof:
        prof.step()
        with otel_torchprof.record_function("epoch"):
            prof.step()
            torch.ones(2).cos()
            prof.step()
    epoch = next(event for event in prof.events() if event.name == "epoch")
    steps = [child for child in epoch.cpu_children if child.name == "ProfilerStep*"]
    assert [step.trace_name for step in steps] == ["ProfilerStep#2"]
    inside = sum(child.cpu_time_total for child in epoch.cpu_children)
    assert epoch.self_cpu_time_total == pytest.approx(epoch.cpu_time_total - inside)


def test_accumulated_events_are_of_all_cycles() -> None:
    prof = profile(activities=CPU, schedule=schedule(wait=0, warmup=0, active=1, repeat=3), acc_events=True)
    with prof:
        for _ in range(3):
            torch.ones(2).cos()
            prof.step()
    assert counts_of(prof)["aten::cos"] == 3
    assert sum(event.name == "aten::cos" for event in prof.events()) == 3
    assert len(prof.recording.steps) == 1


def test_start_and_stop_again_record_again() -> None:
    prof = profile(activities=CPU)
    for _ in range(2):
        prof.start()
        torch.ones(2).cos()
        prof.stop()
        assert counts_of(prof)["aten::cos"] == 1


def test_the_halves_of_start_work_by_themselves() -> None:
    prof = profile(activities=CPU)
    prof.prepare_trace()
    prof.start_trace()
    torch.ones(2).cos()
    prof.stop_trace()
    assert counts_of(prof)["aten::cos"] == 1


def test_cycles_after_the_first_get_a_file_of_their_own(tmp_path: Any) -> None:
    prof = profile(schedule=schedule(wait=0, warmup=0, active=1, repeat=2), path=tmp_path / "run.tprof")
    with prof:
        torch.ones(2).cos()
        prof.step()
        torch.ones(2).sin()
        prof.step()
    names = ["run.1.tprof", "run.tprof"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    second = Recording.open(tmp_path / "run.1.tprof")
    assert "aten::sin" in {second.event_name(row) for row in range(len(second))}


def test_each_cycle_has_an_id() -> None:
    numbers = iter("abc")
    ids: list[str | None] = []
    prof = profile(
        schedule=schedule(wait=0, warmup=0, active=1, repeat=2),
        on_trace_ready=lambda prof: ids.append(prof.get_trace_id()),
        custom_trace_id_callback=lambda: next(numbers),
    )
    assert prof.get_trace_id() is None
    with prof:
        prof.step()
        prof.set_custom_trace_id_callback(None)
        prof.step()
    assert ids[0] == "a"
    with profile() as other:
        pass
    assert len(other.get_trace_id() or "") == 32


def test_an_observer_runs_for_each_cycle() -> None:
    calls: list[str] = []

    class Observer:
        def start(self) -> None:
            calls.append("start")

        def stop(self) -> None:
            calls.append("stop")

        def cleanup(self) -> None:
            calls.append("cleanup")

    prof = profile(
        schedule=schedule(wait=0, warmup=0, active=1, repeat=2), execution_trace_observer=Observer()
    )
    with prof:
        prof.step()
        prof.step()
    assert calls == ["start", "stop", "start", "stop", "cleanup"]


def test_actions_are_visible() -> None:
    prof = profile(schedule=schedule(wait=1, warmup=1, active=1, repeat=1))
    seen: list[ProfilerAction] = []
    with prof:
        for _ in range(4):
            seen.append(prof.current_action)
            prof.step()
    assert [action.name for action in seen] == ["NONE", "WARMUP", "RECORD_AND_SAVE", "NONE"]


def test_what_begins_while_collection_is_off_is_left_out() -> None:
    with profile(activities=CPU) as prof:
        torch.ones(2).cos()
        prof.toggle_collection_dynamic(False, CPU)
        torch.ones(2).sin()
        prof.toggle_collection_dynamic(True, CPU)
        torch.ones(2).tan()
    counts = counts_of(prof)
    assert [counts.get(f"aten::{name}", 0) for name in ("cos", "sin", "tan")] == [1, 0, 1]


def test_collection_of_devices_is_switched_by_their_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    switched: list[bool] = []
    monkeypatch.setattr(Capture, "record_devices", lambda _capture, wanted: switched.append(wanted))
    with profile(activities=CPU) as prof:
        prof.toggle_collection_dynamic(False, [ProfilerActivity.CUDA])
        torch.ones(2).cos()
        prof.toggle_collection_dynamic(True, [ProfilerActivity.CUDA, ProfilerActivity.CPU])
        prof.toggle_collection_dynamic(False, CPU)
    prof.toggle_collection_dynamic(False, [ProfilerActivity.CUDA])  # nothing records any more
    assert switched == [False, True]
    assert counts_of(prof)["aten::cos"] == 1


def test_without_the_cpu_nothing_of_it_is_shown() -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        prof = profile(activities=[ProfilerActivity.CUDA])
    told = (
        "CUDA is not available here: this torch finds no such device, and none is recorded "
        "(otel-torchprof doctor says more)"
    )
    is_missing = ProfilerActivity.CUDA not in supported_activities()
    assert [(str(one.message), one.filename) for one in said] == [(told, __file__)] * is_missing
    with prof:
        torch.ones(2).cos()
    assert list(prof.events()) == []


@pytest.mark.parametrize(
    ("activities", "error"),
    [([], AssertionError), (["CPU"], TypeError), ([ProfilerActivity.CPU] * 2, ValueError)],
)
def test_wrong_activities_are_errors(activities: list[Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        profile(activities=activities)


def test_threads_may_profile_at_once() -> None:
    wrong: list[object] = []

    def work(make_op: Callable[[torch.Tensor], torch.Tensor], name: str) -> None:
        try:
            for _ in range(10):
                with profile(activities=CPU) as prof:
                    for _ in range(5):
                        make_op(torch.ones(2))
                if counts_of(prof)[name] < 5:
                    wrong.append(name)
        except Exception as error:
            wrong.append(error)

    ops = [(torch.cos, "aten::cos"), (torch.sin, "aten::sin"), (torch.tan, "aten::tan")]
    threads = [threading.Thread(target=work, args=op) for op in ops]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_asking_while_recording_is_one_clear_error() -> None:
    with profile() as prof:
        for ask in (prof.events, prof.key_averages, lambda: prof.export_chrome_trace("never.json")):
            with pytest.raises(RuntimeError, match="there is no recording yet"):
                ask()


def test_what_is_done_between_two_steps_is_what_torch_does() -> None:
    def names(actions: list[Any]) -> list[str]:
        return [action.__name__ for action in actions if hasattr(action, "__name__")]  # but warnings

    def table(prof: Any) -> dict[tuple[str, str], list[str]]:
        return {
            (before.name, after.name if after else ""): names(actions)
            for (before, after), actions in prof.action_map.items()
        }

    ours, theirs = table(profile(activities=CPU)), table(torch.profiler.profile(activities=CPU))
    assert len(ours) == 20
    different = {actions for actions in ours if ours[actions] != theirs.get(actions, [])}
    # Where nothing was recorded torch starts and stops, to have something to deliver. And it leaves out to
    # make ready for a cycle that follows another at once.
    assert different == {("WARMUP", "NONE"), ("WARMUP", ""), ("RECORD", "WARMUP")}
    assert ours["WARMUP", "NONE"] == ours["WARMUP", ""] == []
    assert ours["RECORD", "WARMUP"] == ["stop_trace", "prepare_trace"]


def test_the_step_under_way_has_a_name() -> None:
    def step_names(make: Any) -> list[str | None]:
        found: list[str | None] = []
        with make(activities=CPU, schedule=schedule(wait=1, warmup=0, active=2, repeat=1)) as prof:
            for _ in range(4):
                mark = prof.step_rec_fn
                found.append(mark and mark.name)
                prof.step()
        found.append(prof.step_rec_fn)
        return found

    assert step_names(profile) == [f"ProfilerStep#{number}" for number in range(4)] + [None]
    assert step_names(torch.profiler.profile) == step_names(profile)
    assert profile(activities=CPU).step_rec_fn is None


def test_whether_graphs_are_made_is_what_the_compiler_says() -> None:
    import torch._inductor.config

    with torch._inductor.config.patch("triton.cudagraphs", True):
        assert profile(activities=CPU).has_cudagraphs
    with torch._inductor.config.patch("triton.cudagraphs", False):
        assert not profile(activities=CPU).has_cudagraphs
