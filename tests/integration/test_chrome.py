"""Chrome traces of real loops and of other people's files: what is drawn, and what comes back."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.profiler._trace_validator import validate_trace

from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import EventFlags, EventKind, Recording, StepFlags, TensorInput, TrackKind
from tests.support.chrome_rules import broken_rules, nesting, of_phase, read_strictly
from tests.support.test_data import DATA, needs_data
from tests.support.training_loop import ODD_NAMES, run_captured_steps, run_steps

STEPS = 3


@pytest.fixture(scope="module")
def loop() -> Recording:
    """The loop, recorded by us, with shapes."""
    capture = Capture(options=CaptureOptions(record_shapes=True))
    capture.start()
    run_captured_steps(capture, STEPS, names=ODD_NAMES)
    return capture.stop()


@pytest.fixture(scope="module")
def trace_path(loop: Recording, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chrome") / "loop.json"
    export(loop, path)
    return path


def test_the_loop_is_drawn_by_the_rules(trace_path: Path) -> None:
    assert broken_rules(read_strictly(trace_path)) == []


def test_torchs_own_validator_passes(trace_path: Path) -> None:
    passed, found = validate_trace(str(trace_path))
    assert passed, found


def test_slices_nest_as_recorded(loop: Recording, trace_path: Path) -> None:
    drawn = nesting(read_strictly(trace_path))
    parents = loop.tree().parent.tolist()
    assert set(drawn) >= set(range(len(loop)))
    for row, parent in enumerate(parents):
        # Outermost events lie in the slice of their step, which is no event.
        around = drawn[row]
        assert (around if around is not None and around < len(loop) else -1) == parent


def test_the_steps_are_slices_on_the_loops_thread(loop: Recording, trace_path: Path) -> None:
    annotations = of_phase(read_strictly(trace_path), "X", "user_annotation")
    steps = [event for event in annotations if event["name"].startswith("ProfilerStep#")]
    assert [step["name"] for step in steps] == [f"ProfilerStep#{step.number}" for step in loop.steps]
    forward = {event["tid"] for event in annotations if event["name"] == "forward"}
    assert {step["tid"] for step in steps} == forward


def test_every_backward_op_has_a_flow_from_its_forward_op(loop: Recording, trace_path: Path) -> None:
    backward, _forward = loop.links.forward_backward_links()
    trace = read_strictly(trace_path)
    assert len(of_phase(trace, "s", "fwdbwd")) == len(of_phase(trace, "f", "fwdbwd")) == len(backward) > 0


def test_what_was_recorded_comes_back(loop: Recording, trace_path: Path) -> None:
    read_back, report = load(trace_path)
    assert dict(report.problems) == {}
    assert rows_of(read_back) == rows_of(loop)
    assert {name for name, *_ in rows_of(loop)} >= set(ODD_NAMES)
    assert steps_of(read_back) == steps_of(loop)
    assert linked(read_back) == linked(loop)


def test_a_second_round_changes_nothing(trace_path: Path, tmp_path: Path) -> None:
    once, _report = load(trace_path)
    export(once, tmp_path / "again.json.gz")
    twice, _report = load(tmp_path / "again.json.gz")
    assert everything(twice) == everything(once)


def test_the_export_holds_what_kinetos_holds(tmp_path: Path) -> None:
    """Counts by name and category, of one work recorded by both."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        capture = Capture()
        capture.start()
        run_steps(STEPS, at_end_of_step=lambda: None)
        recording = capture.stop()
    profiler.export_chrome_trace(str(tmp_path / "kineto.json"))
    export(recording, tmp_path / "ours.json")
    ours = counts_beside_forward(read_strictly(tmp_path / "ours.json"))
    assert ours == counts_beside_forward(read_strictly(tmp_path / "kineto.json"))


def counts_beside_forward(trace: dict[str, Any]) -> Counter[tuple[str, str]]:
    """Slices by category and name on the thread of the loop: Kineto leaves other threads out."""
    slices = [event for event in of_phase(trace, "X") if event["cat"] in {"cpu_op", "user_annotation"}]
    (thread,) = {event["tid"] for event in slices if event["name"] == "forward"}
    return Counter((event["cat"], event["name"]) for event in slices if event["tid"] == thread)


def test_interleaved_scopes_of_asyncio_are_asynchronous(tmp_path: Path) -> None:
    async def both() -> None:
        one, two, three = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def outer() -> None:
            with torch.profiler.record_function("outer"):
                one.set()
                await two.wait()

        async def later() -> None:
            await one.wait()
            with torch.profiler.record_function("later"):
                two.set()
                await three.wait()

        tasks = [asyncio.create_task(outer()), asyncio.create_task(later())]
        await tasks[0]
        three.set()
        await tasks[1]

    capture = Capture()
    capture.start()
    asyncio.run(both())
    recording = capture.stop()
    export(recording, tmp_path / "trace.json")
    trace = read_strictly(tmp_path / "trace.json")
    assert broken_rules(trace) == []
    assert [event["name"] for event in of_phase(trace, "b")] == ["later"]


DEVICE_KINDS = [EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET, EventKind.SYNC]
FILES = sorted(
    path
    for path in [*DATA.glob("kineto/*.json.gz"), *DATA.glob("trace-event/*.json")]
    if "execution_trace" not in path.name  # which holds no times
)


@needs_data
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_traces_of_others_come_back_whole(path: Path, tmp_path: Path) -> None:
    once, _report = load(path)
    export(once, tmp_path / "trace.json")
    trace = read_strictly(tmp_path / "trace.json")
    assert broken_rules(trace) == []
    twice, _report = load(tmp_path / "trace.json")
    assert everything(twice) == everything(once)
    passed_before, found_before = validated(path)
    passed, found = validated(tmp_path / "trace.json")
    assert passed or (not passed_before and len(found) <= len(found_before))


def validated(path: Path) -> tuple[bool, list[Any]]:
    """What torch's validator says; it reads sound JSON only, and whole events."""
    try:
        passed, found = validate_trace(str(path))
    except (ValueError, TypeError):
        return False, []
    return passed, found


def rows_of(recording: Recording) -> Counter[tuple[Any, ...]]:
    """All events by what a trace says of them; tracks by their thread."""
    events = recording.events
    self_ns = recording.tree().self_ns
    correlation = events.correlation.tolist() or [-1] * len(recording)
    return Counter(
        (
            recording.event_name(row),
            int(events.start_ns[row]),
            int(events.end_ns[row]),
            int(self_ns[row]),
            EventFlags(int(events.flags[row])) & ~EventFlags.INSTANT,
            EventKind(events.kind[row]),
            place(recording, row),
            int(events.sequence[row]),
            int(events.forward_thread[row]) if events.sequence[row] >= 0 else 0,
            correlation[row],
            str(sizes(recording, row)),
        )
        for row in range(len(recording))
    )


def place(recording: Recording, row: int) -> tuple[Any, ...]:
    return thread_of(recording, recording.events.track[row])


def thread_of(recording: Recording, index: int) -> tuple[Any, ...]:
    track = recording.tracks[index]
    if track.kind == TrackKind.STREAM:
        return track.device, track.thread_id
    return track.process_id, track.thread_id


def steps_of(recording: Recording) -> list[tuple[Any, ...]]:
    """All that a trace says of steps: not what other traces they belong to."""
    return [
        (
            *(step.number, step.start_ns, step.end_ns, step.phase, step.flags & ~StepFlags.IN_PARENT),
            thread_of(recording, step.track),
        )
        for step in recording.steps
    ]


def sizes(recording: Recording, row: int) -> list[Any]:
    """The sizes and dtypes of the tensors among the inputs."""
    return [
        (value.dtype, value.sizes, value.strides) if isinstance(value, TensorInput) else None
        for value in recording.inputs(row) or []
    ]


def linked(recording: Recording) -> Counter[tuple[Any, ...]]:
    """Linked pairs, however the recording knows of them."""
    events = recording.events
    backward, forward = recording.links.forward_backward_links()
    pairs = list(zip(backward.tolist(), forward.tolist(), [1] * len(backward), strict=True))
    links = recording.links
    pairs += zip(links.from_event.tolist(), links.to_event.tolist(), links.type.tolist(), strict=True)
    return Counter(
        (
            *(recording.event_name(first), int(events.start_ns[first])),
            *(recording.event_name(second), int(events.start_ns[second]), kind),
        )
        for first, second, kind in pairs
    )


def everything(recording: Recording) -> dict[str, Any]:
    """All that a trace carries."""
    # Calls without an external id get that of the op around them: those rows are new.
    devices = recording.devices
    devices = devices[np.isin(recording.events.kind[devices["event"]], DEVICE_KINDS)]
    return {
        "rows": rows_of(recording),
        "links": linked(recording),
        "steps": steps_of(recording),
        "memory": Counter(recording.memory[["time_ns", "address", "size_bytes"]].tolist()),
        "counters": Counter(recording.counters[["time_ns", "value"]].tolist()),
        "devices": Counter(devices[["stream", "size_bytes", "registers", "shared_bytes"]].tolist()),
        "grids": Counter(map(str, zip(devices["grid"].tolist(), devices["block"].tolist(), strict=True))),
        "kineto": recording.metadata.get("kineto", {}).get("deviceProperties"),
    }
