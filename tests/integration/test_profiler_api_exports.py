"""Files that a profile writes, its metadata, and its results in the shapes of torch's lower level."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch.profiler
from torch import nn

from otel_torchprof import Recording
from otel_torchprof.profiler import (
    ProfilerActivity,
    profile,
    record_function,
    recording_handler,
    schedule,
    tensorboard_trace_handler,
)

CPU = [ProfilerActivity.CPU]
ODD_TEXTS = ['a"b', "tab\there", "back\\slash", "line\nbreak", "naïve ☃ 漢字", "\x01\x1f"]


def trace_of(prof: Any, path: Path) -> Any:
    prof.export_chrome_trace(str(path))
    return read_json(path)


def read_json(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_names_survive_whatever_is_in_them(tmp_path: Path, name: str) -> None:
    with profile(activities=CPU) as prof:
        for text in ODD_TEXTS:
            with record_function(text):
                torch.ones(1)
    names = {event.get("name") for event in trace_of(prof, tmp_path / name)["traceEvents"]}
    assert set(ODD_TEXTS) <= names
    assert set(ODD_TEXTS) <= {event.name for event in prof.events()}


@pytest.mark.parametrize("text", ODD_TEXTS)
def test_metadata_survives_whatever_is_in_it(tmp_path: Path, text: str) -> None:
    with profile(activities=CPU) as prof:
        torch.ones(1)
        prof.add_metadata("text", text)
        prof.add_metadata_json("json", json.dumps({"value": [1, text]}))
        prof.add_metadata_json("no json", text)
    prof.add_metadata("later", text)
    trace = trace_of(prof, tmp_path / "trace.json")
    assert trace["text"] == trace["no json"] == trace["later"] == text
    assert trace["json"] == {"value": [1, text]}
    assert trace["traceEvents"]


def test_a_number_that_is_no_json_is_kept_as_text(tmp_path: Path) -> None:
    with profile(activities=CPU) as prof:
        prof.add_metadata_json("loss", "NaN")
        prof.add_metadata_json("traceEvents", "[]")
        torch.ones(1)
    trace = trace_of(prof, tmp_path / "trace.json")
    assert trace["loss"] == "NaN"
    assert trace["traceEvents"]


def test_metadata_is_part_of_the_recording_and_of_traces_made_of_it(tmp_path: Path) -> None:
    prof = profile(activities=CPU, record_shapes=True)
    prof.preset_metadata_json("model", '{"layers": 2}')
    with prof:
        torch.ones(1)
    prof.recording.save(tmp_path / "run.tprof")
    kept = Recording.open(tmp_path / "run.tprof").metadata["trace_metadata"]
    assert kept["model"] == {"layers": 2}
    assert kept["record_shapes"] == 1
    trace = trace_of(prof, tmp_path / "trace.json")
    assert trace["model"] == {"layers": 2}
    assert trace["trace_id"] == prof.get_trace_id()
    assert trace["schemaVersion"] == 1


def test_metadata_of_a_cycle_is_not_that_of_the_next(tmp_path: Path) -> None:
    traces: list[Any] = []
    with profile(
        schedule=schedule(wait=0, warmup=0, active=1, repeat=2),
        on_trace_ready=lambda prof: traces.append(trace_of(prof, tmp_path / f"{len(traces)}.json")),
    ) as prof:
        prof.add_metadata("once", "here")
        torch.ones(1)
        prof.step()
        torch.ones(1)
        prof.step()
    assert ["once" in trace for trace in traces] == [True, False]


def test_a_trace_can_be_written_again(tmp_path: Path) -> None:
    with profile(activities=CPU) as prof:
        torch.ones(1)
    first, second = (trace_of(prof, tmp_path / name) for name in ("1.json", "2.json"))
    assert first["traceEvents"] == second["traceEvents"]


def test_tensorboard_gets_a_file_of_each_cycle(tmp_path: Path) -> None:
    handler = tensorboard_trace_handler(str(tmp_path / "log"), worker_name="worker0", use_gzip=True)
    with profile(schedule=schedule(wait=0, warmup=1, active=1, repeat=2), on_trace_ready=handler) as prof:
        for _ in range(4):
            torch.ones(2).cos()
            prof.step()
    files = sorted((tmp_path / "log").iterdir())
    assert len(files) == 2
    for file in files:
        assert re.fullmatch(r"worker0\.\d+\.pt\.trace\.json\.gz", file.name)
        names = {event.get("name") for event in read_json(file)["traceEvents"]}
        assert "aten::cos" in names
        assert any(str(name).startswith("ProfilerStep#") for name in names)


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    prof = profile(on_trace_ready=tensorboard_trace_handler(str(tmp_path / "file" / "log")))
    prof.start()
    with pytest.raises(RuntimeError, match="Can't create directory"):
        prof.stop()


def test_recordings_of_cycles_are_kept(tmp_path: Path) -> None:
    with profile(
        schedule=schedule(wait=0, warmup=0, active=1, repeat=2),
        on_trace_ready=recording_handler(tmp_path / "kept"),
    ) as prof:
        for _ in range(2):
            torch.ones(2).cos()
            prof.step()
    recordings = [Recording.open(path) for path in sorted((tmp_path / "kept").iterdir())]
    assert [recording.steps[0].number for recording in recordings] == [0, 1]


def with_memory(make: Any) -> Any:
    model, values = nn.Linear(8, 8), torch.randn(4, 8)
    with make(activities=CPU, record_shapes=True, profile_memory=True, with_stack=True) as prof:
        model(values).sum().backward()
    return prof


@pytest.mark.parametrize("ending", ["json", "json.gz", "raw.json.gz"])
def test_the_memory_timeline_has_the_form_of_torchs(tmp_path: Path, ending: str) -> None:
    read: list[Any] = []
    for make in (torch.profiler.profile, profile):
        path = tmp_path / f"{make.__module__}.{ending}"
        with_memory(make).export_memory_timeline(str(path), device="cpu")
        read.append(read_json(path))
    theirs, ours = read
    if "raw" in ending:
        assert {len(row) for row in ours} == {len(row) for row in theirs} == {4}
        assert {row[1] for row in ours} <= {1, 2, 3, 4}
    else:
        (times, sizes), (_their_times, their_sizes) = ours, theirs
        assert len(times) == len(sizes)
        assert {len(row) for row in sizes} == {len(row) for row in their_sizes}


@pytest.mark.parametrize("method", ["export_memory_timeline", "export_memory_timeline_raw"])
def test_the_memory_timeline_that_was_written_can_be_written_again(tmp_path: Path, method: str) -> None:
    prof = with_memory(profile)
    assert prof.mem_tl is None
    ending = ".raw.json.gz" if method.endswith("raw") else ".json"
    first, again = tmp_path / f"first{ending}", tmp_path / f"again{ending}"
    prof.export_memory_timeline(str(first), device="cpu")
    timeline: Any = prof.mem_tl
    getattr(timeline, method)(str(again), "cpu")
    read = gzip.decompress if ending.endswith(".gz") else bytes
    assert json.loads(read(again.read_bytes())) == json.loads(read(first.read_bytes()))
    timeline.export_memory_timeline_html(str(tmp_path / "page.html"), "cpu")
    assert "<html" in (tmp_path / "page.html").read_text("utf-8")


def test_the_memory_timeline_as_a_page(tmp_path: Path) -> None:
    with_memory(profile).export_memory_timeline(str(tmp_path / "memory.html"))
    assert "<html" in (tmp_path / "memory.html").read_text()


def test_a_memory_timeline_takes_memory(tmp_path: Path) -> None:
    with profile() as prof:
        torch.ones(1)
    with pytest.raises(ValueError, match="profile_memory=True required"):
        prof.export_memory_timeline(str(tmp_path / "never.json"))
    with pytest.raises(ValueError, match="record_shapes=True, profile_memory=True, with_stack=True required"):
        prof._memory_profile()


def test_the_history_of_memory_balances() -> None:
    actions: dict[str, int] = {}
    for moment, action, (_block, version), size_bytes in with_memory(profile)._memory_profile().timeline:
        actions[action.name] = actions.get(action.name, 0) + size_bytes
        assert size_bytes >= 0
        assert version >= 0
        assert (moment == -1) == (action.name == "PREEXISTING")
    assert actions["CREATE"] > 0


def test_tools_find_the_tree_of_events() -> None:
    from torch._C._profiler import _EventType

    prof = with_memory(profile)

    def walk(events: Any) -> Any:
        for event in events:
            yield event
            yield from walk(event.children)

    results = prof.profiler.kineto_results
    nodes = list(walk(results.experimental_event_tree()))
    tags = {node.tag for node in nodes}
    assert {_EventType.TorchOp, _EventType.Allocation, _EventType.PyCall} <= tags
    addmm = next(node for node in nodes if node.name == "aten::addmm")
    assert addmm.typed == (addmm.tag, addmm.extra_fields)
    bias, value, *_rest = addmm.extra_fields.inputs
    assert (bias.sizes, value.sizes, value.strides) == ([8], [4, 8], [8, 1])
    assert (value.dtype, value.device, bias.requires_grad) == (torch.float32, torch.device("cpu"), True)
    allocation = next(node for node in addmm.children if node.tag == _EventType.Allocation)
    assert (allocation.extra_fields.alloc_size, allocation.parent) == (4 * 8 * 4, addmm)
    assert addmm.start_time_ns <= allocation.start_time_ns <= addmm.end_time_ns
    assert addmm.duration_time_ns == addmm.end_time_ns - addmm.start_time_ns


def test_events_of_the_lower_level_have_torchs_methods() -> None:
    theirs = with_memory(torch.profiler.profile).profiler.kineto_results
    ours = with_memory(profile).profiler.kineto_results
    methods = {name for name in dir(theirs.events()[0]) if not name.startswith("_")}
    event = ours.events()[0]
    assert methods <= set(dir(event))
    for name in methods:
        getattr(event, name)()
    assert event.end_ns() - event.start_ns() == event.duration_ns()
    assert ours.trace_start_ns() <= event.start_ns()


def test_events_have_torchs_attributes() -> None:
    theirs, ours = (with_memory(make).events()[0] for make in (torch.profiler.profile, profile))
    names = {name for name in dir(theirs) if not name.startswith("_")}
    assert {name for name in names if not hasattr(ours, name)} == set()
    their_average, our_average = (
        with_memory(make).key_averages()[0] for make in (torch.profiler.profile, profile)
    )
    names = {name for name in dir(their_average) if not name.startswith("_")}
    assert {name for name in names if not hasattr(our_average, name)} == set()
