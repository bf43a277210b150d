"""Tables, sorting, FLOPs and stacks of `key_averages()` and `events()`, beside torch's."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch.profiler
from torch import nn

from otel_torchprof.profiler import ProfilerActivity, profile, record_function
from otel_torchprof.profiling.event_list import EventList
from otel_torchprof.profiling.event_names import python_name
from otel_torchprof.profiling.function_event import FunctionEvent
from otel_torchprof.profiling.function_event_avg import FunctionEventAvg
from otel_torchprof.profiling.table import look_through

CPU = [ProfilerActivity.CPU]


def record(make: Any = profile, **options: Any) -> Any:
    model, values = nn.Linear(3, 4), torch.randn(2, 3)
    with make(activities=CPU, **options) as prof:
        model(values).sum().backward()
    return prof


def columns(table: str) -> list[str]:
    header = next(line for line in table.splitlines() if "# of Calls" in line)
    return re.split(r"\s{2,}", header.strip())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"record_shapes": True},
        {"profile_memory": True},
        {"with_flops": True},
        {"record_shapes": True, "profile_memory": True, "with_flops": True},
    ],
)
@pytest.mark.parametrize("by_shape", [False, True])
def test_columns_and_rows_are_those_of_torch(options: dict[str, bool], by_shape: bool) -> None:
    tables = [
        record(make, **options).key_averages(group_by_input_shape=by_shape).table(row_limit=-1)
        for make in (torch.profiler.profile, profile)
    ]
    theirs, ours = map(columns, tables)
    assert ours == theirs
    rows = [
        {line.split()[0] for line in table.splitlines() if "%  " in line and "Self CPU %" not in line}
        for table in tables
    ]
    assert rows[0] == rows[1]
    assert "aten::addmm" in rows[0]
    assert tables[1].splitlines()[-1].startswith("Self CPU time total: ")


def test_no_limit_takes_a_column_of_averages_away() -> None:
    options = {"record_shapes": True, "profile_memory": True, "with_flops": True}
    theirs, ours = (record(make, **options) for make in (torch.profiler.profile, profile))
    for sort_by in (None, "self_cpu_time_total", "count"):
        kept, shown = (
            columns(prof.key_averages(group_by_input_shape=True).table(sort_by, row_limit=1))
            for prof in (theirs, ours)
        )
        assert shown == kept


@pytest.mark.parametrize("options", [{"record_shapes": True, "profile_memory": True}, {"with_stack": True}])
def test_no_limit_takes_a_column_of_events_away(options: dict[str, bool]) -> None:
    theirs, ours = (record(make, **options) for make in (torch.profiler.profile, profile))
    kept, shown, whole = (
        columns(prof.events().table(row_limit=limit)) for prof, limit in ((theirs, 1), (ours, 1), (ours, -1))
    )
    assert shown == whole
    # Ours know these without being asked to.
    assert [header for header in shown if header not in {"Overload Name", "Source Location"}] == kept


@pytest.mark.parametrize("option", ["record_shapes", "with_flops", "with_stack", "profile_memory"])
def test_what_events_have_is_known_without_making_them(option: str) -> None:
    events = record(**{option: True}).events()
    assert events._contents() == look_through(list(events))


def test_overloads_are_told_apart_on_request() -> None:
    with profile(activities=CPU) as prof:
        torch.add(torch.ones(2), 1)
        torch.add(torch.ones(2), 1, out=torch.empty(2))
    plain = [average for average in prof.key_averages() if average.key == "aten::add"]
    assert [(average.count, average.overload_name) for average in plain] == [(2, "")]
    apart = prof.key_averages(group_by_overload_name=True)
    assert {a.overload_name for a in apart if a.key == "aten::add"} == {"Tensor", "out"}
    assert "Overload Name" in columns(apart.table())


def test_rows_are_limited_sorted_and_in_the_unit_asked_for() -> None:
    averages = record().key_averages()
    table = averages.table(sort_by="self_cpu_time_total", row_limit=3, time_unit="ms", header="A header")
    lines = table.splitlines()
    assert lines[1] == "A header"
    assert lines[0] == "=" * len(lines[0])
    rows = lines[5:8]
    times = [float(re.split(r"\s{2,}", row.strip())[2].removesuffix("ms")) for row in rows]
    assert times == sorted(times, reverse=True)
    assert lines[8].startswith("----")


@pytest.mark.parametrize(
    "key",
    [
        *("cpu_time", "cuda_time", "xpu_time", "cpu_time_total", "cuda_time_total", "xpu_time_total"),
        *("cpu_memory_usage", "cuda_memory_usage", "xpu_memory_usage", "self_cpu_memory_usage"),
        *("self_cuda_memory_usage", "self_xpu_memory_usage", "count"),
    ],
)
def test_every_documented_key_sorts(key: str) -> None:
    prof = record(profile_memory=True)
    assert prof.key_averages().table(sort_by=key).count("aten::addmm") == 1
    assert prof.events().table(sort_by=key).count("aten::addmm") == 1


def test_an_unknown_key_is_an_attribute_error() -> None:
    prof = record()
    for events in (prof.key_averages(), prof.events()):
        with pytest.raises(
            AttributeError, match="no attribute 'self_cpu_tme_total': sort_by is one of"
        ) as told:
            events.table(sort_by="self_cpu_tme_total")
        for key in str(told.value).partition("one of ")[2].split(", "):
            assert "aten::addmm" in events.table(sort_by=key)


def test_only_top_level_events_on_request() -> None:
    with profile(activities=CPU) as prof, record_function("outer"):
        torch.ones(2)
    table = prof.events().table(top_level_events_only=True)
    assert "outer" in table
    assert "aten::ones" not in table
    assert "This report only display top-level ops statistics" in table


def test_long_names_are_cut() -> None:
    with profile(activities=CPU) as prof, record_function("a" * 80):
        pass
    assert "a" * 52 + "..." in prof.key_averages().table()
    assert "a" * 80 in prof.key_averages().table(max_name_column_width=None)


def test_totals_do_not_change_when_they_are_printed() -> None:
    prof = record(with_flops=True)
    averages = prof.key_averages()
    assert averages.table() == averages.table() == prof.key_averages().table()


def test_flops_are_those_of_torch_and_known_for_more_ops() -> None:
    def run(make: Any) -> dict[str, int]:
        with make(activities=CPU, with_flops=True) as prof:
            torch.mm(torch.ones(2, 3), torch.ones(3, 4))
            torch.addmm(torch.ones(4), torch.ones(2, 3), torch.ones(3, 4))
            torch.bmm(torch.ones(5, 2, 3), torch.ones(5, 3, 4))
            torch.baddbmm(torch.ones(5, 2, 4), torch.ones(5, 2, 3), torch.ones(5, 3, 4))
            torch.ones(2, 3) * torch.ones(2, 3)
            torch.ones(2, 3) + torch.ones(2, 3)
            torch.conv2d(torch.ones(1, 4, 8, 8), torch.ones(6, 2, 3, 3), stride=2, padding=1, groups=2)
            torch.conv1d(torch.ones(1, 2, 8), torch.ones(3, 2, 3))
            torch.conv_transpose2d(torch.ones(1, 4, 3, 3), torch.ones(4, 2, 2, 2))
        return {average.key: average.flops for average in prof.key_averages() if average.flops}

    theirs, ours = run(torch.profiler.profile), run(profile)
    assert theirs.items() <= ours.items()
    assert ours["aten::mm"] == 2 * 2 * 3 * 4
    assert ours["aten::conv1d"] == 2 * 1 * 6 * (3 * 2 * 3)
    assert ours["aten::conv_transpose2d"] == 2 * 1 * 9 * (4 * 2 * 2 * 2)


def test_work_is_counted_once_where_ops_are_made_of_others() -> None:
    query = torch.ones(1, 2, 5, 8)
    with profile(activities=CPU, with_flops=True) as prof:
        nn.functional.scaled_dot_product_attention(query, query, query)
        nn.functional.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(4))
    attention = 2 * 2 * 5 * 5 * (8 + 8)
    linear = 2 * 2 * 3 * 4
    elementwise = sum(a.flops for a in prof.key_averages() if a.key in {"aten::mul", "aten::add"})
    assert prof.profiler is not None
    assert prof.profiler.total_average().flops - elementwise == attention + linear


def test_stacks_are_those_of_python_innermost_first() -> None:
    with profile(activities=CPU, with_stack=True) as prof:
        make_cosine()
    event: Any = next(event for event in prof.events() if event.name == "aten::cos")
    assert [entry.rpartition(": ")[2] for entry in event.stack[:2]] == [
        "make_cosine",
        "test_stacks_are_those_of_python_innermost_first",
    ]
    assert re.search(r"test_profiler_api_tables\.py\(\d+\): make_cosine$", event.stack[0])
    assert not any(line.startswith("/") for line in event.stack[:2])
    average = next(a for a in prof.key_averages(group_by_stack_n=1) if a.key == "aten::cos")
    assert average.stack == event.stack[:1]
    assert "Source Location" in columns(prof.key_averages(group_by_stack_n=1).table())


def test_places_are_told_from_where_modules_are_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/a/lib", "/a/lib/site-packages", "/a/b"])
    assert python_name("call", "/a/lib/site-packages/torch/nn/modules/module.py:5") == (
        "torch/nn/modules/module.py(5): call"
    )
    assert python_name("wait", "/a/lib/threading.py:9") == "threading.py(9): wait"
    # A folder whose name begins alike is another one.
    assert python_name("f", "/a/bc/train.py:7") == "/a/bc/train.py(7): f"
    assert python_name("f", "") == "f"


def test_stacks_are_as_short_as_those_of_torch() -> None:
    with profile(activities=CPU, with_stack=True) as prof:
        nn.Linear(3, 4)(torch.ones(2, 3))
    event: Any = next(event for event in prof.events() if event.name == "aten::linear")
    assert re.fullmatch(r"torch/nn/modules/linear\.py\(\d+\): Linear\.forward", event.stack[0])


def make_cosine() -> None:
    torch.ones(2).cos()


def test_stacks_are_written_for_flame_graphs(tmp_path: Path) -> None:
    with profile(activities=CPU, with_stack=True) as prof:
        for _ in range(50):
            make_cosine()
    prof.export_stacks(tmp_path / "stacks.txt", "self_cpu_time_total")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert any("make_cosine" in line and line.partition(" ")[0] for line in lines)
    for line in lines:
        assert line.rpartition(" ")[2].isdigit()
    assert len({line.rpartition(" ")[0] for line in lines}) == len(lines)
    with pytest.raises(ValueError, match="metric should be one of"):
        prof.export_stacks(tmp_path / "never.txt", "count")


def test_a_list_of_events_is_a_list() -> None:
    events = record().events()
    first = events[0]
    assert events[0] is first
    assert events[-1].time_range.start >= first.time_range.start
    assert [event.id for event in events[:3]] == [event.id for event in list(events)[:3]]
    assert first in events
    events.append(first)
    assert events[-1] is first
    assert len([*events, first]) == len(events) + 1


def test_events_made_by_hand_add_up() -> None:
    parent = FunctionEvent(id=1, name="parent", thread=1, start_us=0, end_us=10, use_device="cuda")
    child = FunctionEvent(id=2, name="child", thread=1, start_us=2, end_us=5, use_device="cuda")
    parent.append_cpu_child(child)
    child.set_cpu_parent(parent)
    child.append_kernel("kernel", 0, 7)
    assert (parent.cpu_time_total, parent.self_cpu_time_total) == (10, 7)
    assert (parent.device_time_total, parent.self_device_time_total, child.self_device_time_total) == (
        7,
        0,
        7,
    )
    with pytest.warns(FutureWarning, match="use `device_time_total`"):
        assert parent.cuda_time_total == 7
    averages = EventList([parent, child], use_device="cuda").key_averages()
    assert [(a.key, a.count, a.cpu_time_str) for a in averages] == [
        ("parent", 1, "10.000us"),
        ("child", 1, "3.000us"),
    ]
    total = EventList([parent, child]).total_average()
    assert (total.key, total.count, total.self_cpu_time_total) == ("Total", 2, 10)


def test_only_one_key_is_averaged() -> None:
    average = FunctionEventAvg().add(FunctionEvent(1, "a", 1, 0, 1))
    with pytest.raises(AssertionError, match="'b' is not 'a'"):
        average.add(FunctionEvent(2, "b", 1, 0, 1))


def test_memory_is_that_of_torch_where_one_thread_allocates() -> None:
    def run(make: Any) -> dict[str, tuple[int, int]]:
        with make(activities=CPU, profile_memory=True) as prof:
            kept = torch.ones(256)
            del kept
            torch.ones(128).cos()
        return {
            average.key: (average.cpu_memory_usage, average.self_cpu_memory_usage)
            for average in prof.key_averages()
        }

    ours = run(profile)
    assert ours == run(torch.profiler.profile)
    assert ours["[memory]"] == (-2048, -2048)


def test_it_is_stated_how_much_of_the_time_flops_speak_for() -> None:
    big = torch.ones(512, 512)
    with profile(activities=CPU, with_flops=True) as prof:
        torch.mm(big, big)
    assert prof.flops_coverage() == 1
    with profile(activities=CPU, with_flops=True) as prof:
        big.sin()
    assert prof.flops_coverage() == 0
    with profile(activities=CPU, with_flops=True) as prof:
        torch.conv2d(torch.ones(4, 8, 32, 32), torch.ones(8, 8, 3, 3))
        big.sin()
    averages = {average.key: average for average in prof.key_averages()}
    whole_us = sum(average.self_cpu_time_total for average in averages.values())
    # All of the convolution is made by ops inside it.
    expected = averages["aten::conv2d"].cpu_time_total / whole_us
    assert prof.flops_coverage() == pytest.approx(expected, rel=1e-3)
