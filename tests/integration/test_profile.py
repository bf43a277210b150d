"""`profile()` and `step()`: recording by hand."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, TraceFlags

import otel_torchprof
from otel_torchprof import ProfilerAction, Recording, profile, schedule
from otel_torchprof.recorder import step_details
from otel_torchprof.recorder.steps import process_steps
from otel_torchprof.recording.kinds import StepFlags


def names_of(recording: Recording) -> Counter[str]:
    return Counter(recording.event_name(row) for row in range(len(recording)))


def test_everything_inside_the_block_is_recorded() -> None:
    with profile() as prof:
        torch.ones(2).cos()
    torch.ones(2).sin()
    names = names_of(prof.recording)
    assert names["aten::cos"] == 1
    assert names["aten::sin"] == 0
    (step,) = prof.recording.steps
    assert step.number == 0
    assert step.start_ns <= step.end_ns


def test_steps_are_numbered_as_in_torch_profiler() -> None:
    with profile() as prof:
        for _ in range(3):
            torch.ones(2).cos()
            prof.step()
    assert prof.step_num == 3
    assert [step.number for step in prof.recording.steps] == [0, 1, 2, 3]


def test_shapes_on_request() -> None:
    for record_shapes in (False, True):
        with profile(record_shapes=record_shapes) as prof:
            torch.ones(2, 3).cos()
        recording = prof.recording
        (row,) = [row for row in range(len(recording)) if recording.event_name(row) == "aten::cos"]
        inputs = recording.inputs(row)
        assert bool(inputs) is record_shapes


def test_a_file_is_saved_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "run.tprof"
    with profile(path=path) as prof:
        torch.ones(2).cos()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert names_of(Recording.open(path)) == names_of(prof.recording)


def test_two_at_once_both_see_their_events() -> None:
    with profile() as outer:
        torch.ones(2).cos()
        with profile() as inner:
            torch.ones(2).sin()
        torch.ones(2).tan()
    outer_names, inner_names = names_of(outer.recording), names_of(inner.recording)
    assert [outer_names[f"aten::{op}"] for op in ("cos", "sin", "tan")] == [1, 1, 1]
    assert [inner_names[f"aten::{op}"] for op in ("cos", "sin", "tan")] == [0, 1, 0]


def test_an_exception_leaves_the_recording() -> None:
    prof = profile()

    def fail() -> None:
        with prof:
            torch.ones(2).cos()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert names_of(prof.recording)["aten::cos"] == 1


def test_wrong_use_says_what_to_do() -> None:
    prof = profile()
    with pytest.raises(RuntimeError, match="there is no recording yet: leave the `with` block"):
        _ = prof.recording
    with pytest.raises(RuntimeError, match=r"the profile does not record: call start\(\)"):
        prof.stop()
    with prof, pytest.raises(RuntimeError, match="a profile records once: make another"):
        prof.start()
    prof.stop()


def test_steps_outside_of_a_profile_are_counted_only() -> None:
    delivered: list[int] = []
    prof = profile(
        schedule=schedule(wait=1, warmup=1, active=1, repeat=0),
        on_trace_ready=lambda prof: delivered.append(prof.step_num),
    )
    prof.step()
    assert (prof.step_num, prof.current_action) == (1, ProfilerAction.WARMUP)
    prof.start()
    prof.step()
    torch.ones(2).cos()
    prof.step()
    prof.stop()
    assert delivered == [3]
    for _ in range(4):
        prof.step()
    assert (prof.step_num, prof.current_action) == (7, ProfilerAction.WARMUP)
    assert delivered == [3]
    assert names_of(prof.recording)["aten::cos"] == 1


def test_a_path_that_cannot_be_written_raises(tmp_path: Path) -> None:
    prof = profile(path=tmp_path / "missing" / "run.tprof")
    with pytest.raises(OSError, match=r"run\.tprof"):
        prof.start()


class Boundaries:
    def __init__(self) -> None:
        self.links: list[bytes] = []

    def __call__(self, number: int, links: bytes) -> None:
        self.links.append(links)


@pytest.fixture
def boundaries() -> Boundaries:
    return Boundaries()


def test_explicit_steps_reach_whoever_listens(boundaries: Boundaries) -> None:
    otel_torchprof.step()  # nobody listens: nothing is counted
    process_steps.add_listener(boundaries)
    try:
        context = SpanContext(2**127 + 5, 7, is_remote=True, trace_flags=TraceFlags(1))
        packed = (2**127 + 5).to_bytes(16, "big") + (7).to_bytes(8, "big")
        otel_torchprof.step(links=[context, Link(context), NonRecordingSpan(context)])
        otel_torchprof.step(links=[SpanContext(0, 0, is_remote=False)])
        otel_torchprof.step(links=["nonsense"])  # goes without them
        otel_torchprof.step()
    finally:
        process_steps.remove_listener(boundaries)
        process_steps.start_over()
    assert boundaries.links == [packed * 3, b"", b"", b""]


def test_a_profile_counts_as_explicit_while_it_records(boundaries: Boundaries) -> None:
    process_steps.add_listener(boundaries)
    try:
        with profile() as prof:
            prof.step()
            prof.step()
    finally:
        process_steps.remove_listener(boundaries)
        process_steps.start_over()
    assert len(boundaries.links) == 2


def test_step_flags_are_those_of_the_format() -> None:
    assert StepFlags.PARTIAL == step_details.STEP_PARTIAL
    assert StepFlags.IN_PARENT == step_details.STEP_IN_PARENT
    assert StepFlags.HAS_NUMBER == step_details.STEP_HAS_NUMBER


def test_record_function_is_torchs_own() -> None:
    assert otel_torchprof.record_function is torch.autograd.profiler.record_function


def test_importing_loads_neither_torch_nor_an_sdk_and_starts_no_thread() -> None:
    code = """
import sys, threading
import otel_torchprof, otel_torchprof.instrumentor
otel_torchprof.step()
assert "torch" not in sys.modules
assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
assert threading.active_count() == 1
assert set(otel_torchprof.__all__) <= set(dir(otel_torchprof))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'profil'"):
        _ = otel_torchprof.profil
