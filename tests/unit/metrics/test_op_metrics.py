"""Operators of recordings: held to a plain implementation, whatever the recording."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.importers import load
from otel_torchprof.metrics.families import MetricFamily
from otel_torchprof.metrics.op_metrics import op_families
from otel_torchprof.metrics.phases import PHASES, phase_of_events
from otel_torchprof.recording import EventFlags, EventKind, Recording, RecordingBuilder, StepPhase
from otel_torchprof.semconv_metrics import (
    OP_CALLS,
    OP_DURATION,
    OP_NAME,
    OP_SELF_TIME,
    OP_TIME,
    PHASE,
    TOP_NAMES,
)
from tests.support.plain_metrics import OpSums, plain_op_sums, plain_phase
from tests.support.test_data import KINETO, needs_data

BACKWARD_SCOPE = 1

_NAMES = st.sampled_from(
    (
        *("aten::add", "aten::mul", "AddBackward0", "autograd::engine::evaluate_function: AddBackward0"),
        *("Optimizer.step#SGD.step", "Optimizer.zero_grad#SGD.zero_grad", "Optimizer.step", "scope", "other"),
    )
)
_KINDS = st.sampled_from([EventKind.OP, EventKind.OP, EventKind.USER, EventKind.RUNTIME, EventKind.PYTHON])
_FLAGS = st.sampled_from(
    [EventFlags(0)] * 6 + [EventFlags.ASYNC, EventFlags.UNFINISHED, EventFlags.OTHER_THREAD]
)


@st.composite
def programs(draw: st.DrawFn) -> Recording:
    """Nested, crossing and asynchronous events on two threads, and steps of all phases."""
    builder = RecordingBuilder()
    for thread in range(2):
        builder.add_track(thread_id=thread + 1)
    for _ in range(draw(st.integers(0, 14))):
        start_ns, end_ns = sorted([draw(st.integers(0, 30)), draw(st.integers(0, 30))])
        builder.add_event(
            draw(_NAMES),
            start_ns,
            end_ns,
            track=draw(st.integers(0, 1)),
            kind=draw(_KINDS),
            scope=draw(st.sampled_from([0, 0, BACKWARD_SCOPE, 7])),
            flags=draw(_FLAGS),
            sequence=draw(st.sampled_from([-1, -1, 0, 5])),
            forward_thread=draw(st.sampled_from([0, 0, 0, 3])),
        )
    for number in range(draw(st.integers(0, 3))):
        start_ns, end_ns = sorted([draw(st.integers(0, 30)), draw(st.integers(0, 30))])
        builder.add_step(start_ns, end_ns, number, phase=draw(st.sampled_from(StepPhase)))
    return builder.finish()


def by_series(families: list[MetricFamily], metric: str) -> dict[tuple[str, str], Any]:
    (family,) = (family for family in families if family.metric.name == metric)
    return {(str(point.attributes[OP_NAME]), str(point.attributes[PHASE])): point for point in family.points}


def sums_of(families: list[MetricFamily]) -> dict[tuple[str, str], OpSums]:
    calls, total, own = (by_series(families, metric) for metric in (OP_CALLS, OP_TIME, OP_SELF_TIME))
    assert set(calls) == set(total) == set(own)
    return {
        key: OpSums(point.value, round(total[key].value * 1e9), round(own[key].value * 1e9))
        for key, point in calls.items()
    }


@given(programs())
def test_sums_are_those_of_the_plain_implementation(recording: Recording) -> None:
    assert sums_of(op_families(recording, 7)) == plain_op_sums(recording)


@given(programs())
def test_phases_are_those_of_the_plain_implementation(recording: Recording) -> None:
    phases = [PHASES[code] for code in phase_of_events(recording).tolist()]
    assert phases == [plain_phase(recording, row) for row in range(len(recording))]


@given(programs())
def test_histograms_have_the_same_calls_and_times(recording: Recording) -> None:
    families = op_families(recording, 7, durations=True)
    sums = sums_of(families)
    histograms = by_series(families, OP_DURATION)
    assert {key: (point.count, round(point.sum * 1e9)) for key, point in histograms.items()} == {
        key: (calls, total_ns) for key, (calls, total_ns, _self) in sums.items()
    }


def test_the_phase_of_each_operator_of_a_training_step() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("aten::linear", 0, 10, sequence=3)
    builder.add_event("aten::addmm", 2, 8)
    builder.add_event("autograd::engine::evaluate_function: AddmmBackward0", 20, 40)
    builder.add_event("AddmmBackward0", 21, 30, scope=BACKWARD_SCOPE, sequence=3, forward_thread=1)
    builder.add_event("aten::mm", 22, 28, sequence=9)
    builder.add_event("Optimizer.step#SGD.step", 50, 70, kind=EventKind.USER)
    builder.add_event("aten::add_", 55, 60)
    builder.add_event("aten::empty", 80, 81)
    got = dict(sums_of(op_families(builder.finish(), 0)).keys())
    assert got == {
        "aten::linear": "forward",
        "aten::addmm": "forward",
        "autograd::engine::evaluate_function: AddmmBackward0": "backward",
        "AddmmBackward0": "backward",
        "aten::mm": "backward",
        "Optimizer.step#SGD.step": "optimizer",
        "aten::add_": "optimizer",
        "aten::empty": "other",
    }


def test_without_gradients_the_step_tells_a_forward_pass() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_step(0, 10, 1, phase=StepPhase.INFER)
    builder.add_step(10, 20, 2, phase=StepPhase.TRAIN)
    builder.add_event("aten::mm", 1, 2)
    builder.add_event("aten::mm", 11, 12)
    assert set(sums_of(op_families(builder.finish(), 0))) == {("aten::mm", "forward"), ("aten::mm", "other")}


def test_a_backward_that_steps_an_optimizer_and_an_optimizer_that_runs_a_backward() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("AddBackward0", 0, 30, scope=BACKWARD_SCOPE)
    builder.add_event("Optimizer.step#SGD.step", 5, 20, kind=EventKind.USER)
    builder.add_event("aten::add_", 6, 8)
    builder.add_event("Optimizer.step#LBFGS.step", 40, 90, kind=EventKind.USER)
    builder.add_event("MulBackward0", 50, 60, scope=BACKWARD_SCOPE)
    builder.add_event("aten::mul", 51, 52)
    phases = dict(sums_of(op_families(builder.finish(), 0)).keys())
    assert (phases["aten::add_"], phases["aten::mul"]) == ("optimizer", "backward")


def test_self_times_add_up_to_the_time_of_the_outermost() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    builder.add_event("aten::outer", 0, 100)
    builder.add_event("cudaLaunchKernel", 10, 20, kind=EventKind.RUNTIME)
    builder.add_event("aten::inner", 30, 60)
    builder.add_event("cudaMalloc", 40, 50, kind=EventKind.RUNTIME)
    builder.add_event("my scope", 70, 90, kind=EventKind.USER)
    sums = sums_of(op_families(builder.finish(), 0))
    assert sums == {
        ("aten::outer", "other"): (1, 100, 50),
        ("aten::inner", "other"): (1, 30, 30),
        ("my scope", "other"): (1, 20, 20),
    }


def test_beyond_the_top_40_names_the_rest_is_other() -> None:
    builder = RecordingBuilder()
    builder.add_track()
    for index in range(TOP_NAMES + 5):
        builder.add_event(f"aten::op{index}", 1000 * index, 1000 * index + index + 1)
    families = op_families(builder.finish(), 9, durations=True)
    sums = sums_of(families)
    assert len(sums) == TOP_NAMES + 1
    assert sums["other", "other"] == (5, 1 + 2 + 3 + 4 + 5, 15)
    assert by_series(families, OP_DURATION)["other", "other"].count == 5
    assert {point.start_unix_ns for family in families for point in family.points} == {9}


@needs_data
@pytest.mark.parametrize("trace", ["h100_bert_small", "alexnet_a100", "sampled_rank0", "mi250_rocm_train"])
def test_real_traces(trace: str) -> None:
    recording, _report = load(KINETO / f"{trace}.json.gz")
    expected = plain_op_sums(recording)
    got = sums_of(op_families(recording, 0))
    # Steps of torch.profiler are one name, whatever their number.
    own = {key: values for key, values in got.items() if key[0] not in {"other", "torch.step"}}
    assert own == {key: expected[key] for key in own}
    for place in range(3):
        assert sum(values[place] for values in got.values()) == sum(
            values[place] for values in expected.values()
        )
    assert {"h100_bert_small": 1, "alexnet_a100": 2, "sampled_rank0": 4, "mi250_rocm_train": 4}[trace] == len(
        {phase for _name, phase in got}
    )
