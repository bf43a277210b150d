"""Counting real ops: against a recording of the same run, over threads, forks and sampled steps."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator,no-untyped-call"

from __future__ import annotations

import random
import subprocess
import sys
import textwrap
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from torch.profiler import record_function

from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.op_cost import ASSUMED_OP_COST_NS, measure_op_cost_ns
from otel_torchprof.recorder.op_counts import TABLE_FULL_NAME, OpCount, OpCounts, OpPhase
from otel_torchprof.recorder.step_sampling import StepSampler
from otel_torchprof.recorder.steps import StepSource, StepTracker
from otel_torchprof.recording import Recording
from otel_torchprof.semconv_metrics import SHORT_BOUNDS_S
from tests.support.recorded_ops import BACKWARD_FUNCTION, USER_SCOPE, ops_of
from tests.support.training_loop import ODD_NAMES, run_steps

# Bound of a counted name, in bytes (native/core/aggregate/op_names.h).
MAX_NAME_BYTES = 255

Calls = dict[tuple[str, OpPhase, bool], int]


@pytest.fixture
def counts() -> Iterator[OpCounts]:
    counts = OpCounts()
    counts.start()
    yield counts
    counts.stop()


def calls_of(rows: list[OpCount]) -> Calls:
    return {(row.name, row.phase, row.is_user): row.calls for row in rows}


def calls_recorded(recording: Recording) -> Calls:
    """Calls by name and phase, the phases found from the tree of the recording."""
    parent = recording.tree().parent
    phases: list[OpPhase] = []
    calls: Counter[tuple[str, OpPhase, bool]] = Counter()
    for op in ops_of(recording):
        is_user = op.scope == USER_SCOPE
        outer = phases[parent[op.row]] if parent[op.row] >= 0 else OpPhase.OTHER
        if op.scope == BACKWARD_FUNCTION or op.name.startswith("autograd::engine::evaluate_function: "):
            phase = OpPhase.BACKWARD
        elif is_user and op.name.startswith(("Optimizer.step#", "Optimizer.zero_grad#")):
            phase = OpPhase.OPTIMIZER
        elif outer is OpPhase.OTHER and op.sequence >= 0:
            phase = OpPhase.FORWARD
        else:
            phase = outer
        phases.append(phase)
        name = op.name.encode()[:MAX_NAME_BYTES].decode(errors="replace")
        calls[name, phase, is_user] += 1
    return dict(calls)


def test_counts_equal_the_recording_of_the_same_run(counts: OpCounts) -> None:
    capture = Capture()
    capture.start()
    run_steps(3, at_end_of_step=lambda: None, names=ODD_NAMES)
    recording = capture.stop()
    counts.stop()
    counted = calls_of(counts.collect())
    assert counted == calls_recorded(recording)
    assert {phase for _, phase, _ in counted} == set(OpPhase)
    assert counts.counted == len(recording)
    assert counts.drops == {}


def test_a_backward_pass_on_another_thread_is_backward_there(counts: OpCounts) -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    loss = (weight @ weight).sum()
    backward = threading.Thread(target=loss.backward)
    backward.start()
    backward.join()
    counts.stop()
    calls = calls_of(counts.collect())
    assert calls["aten::matmul", OpPhase.FORWARD, False] == 1
    assert calls["MmBackward0", OpPhase.BACKWARD, False] == 1
    assert calls["aten::mm", OpPhase.BACKWARD, False] == 2


def test_inference_is_forward_when_the_program_says_so(counts: OpCounts) -> None:
    with torch.no_grad():
        torch.relu(torch.ones(1))
        counts.set_inference(True)
        torch.relu(torch.ones(1))
        counts.set_inference(False)
        torch.relu(torch.ones(1))
    calls = calls_of(counts.collect())
    assert calls["aten::relu", OpPhase.OTHER, False] == 2
    assert calls["aten::relu", OpPhase.FORWARD, False] == 1


def test_self_times_add_up_to_the_time_of_what_encloses_all() -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    counts = OpCounts()
    counts.start()
    with record_function("everything"):
        for _ in range(20):
            (weight @ weight).sum().backward()
    counts.stop()
    rows = counts.collect()
    everything = next(row for row in rows if row.name == "everything")
    # Each number is rounded down.
    assert 0 <= everything.total_ns - sum(row.self_ns for row in rows) <= len(rows)
    assert all(0 < row.self_ns <= row.total_ns for row in rows)


def test_durations_are_in_the_buckets_of_the_metric() -> None:
    counts = OpCounts(with_durations=True)
    counts.start()
    for _ in range(10):
        torch.ones(1)
    counts.stop()
    rows = counts.collect()
    assert {row.name for row in rows} == {"aten::ones", "aten::empty", "aten::fill_"}
    bounds_ns = [bound * 1e9 for bound in SHORT_BOUNDS_S]
    for row in rows:
        assert row.duration_counts is not None
        assert len(row.duration_counts) == len(SHORT_BOUNDS_S) + 1
        assert sum(row.duration_counts) == row.calls == 10
        # What the buckets allow for the sum; the bounds themselves were rounded to a tick.
        at_least = sum(n * low for n, low in zip(row.duration_counts[1:], bounds_ns, strict=True))
        at_most = sum(n * high for n, high in zip(row.duration_counts, bounds_ns, strict=False))
        assert at_least * 0.999 <= row.total_ns
        assert row.duration_counts[-1] or row.total_ns <= at_most * 1.001


def test_only_one_counts_and_a_dropped_one_makes_room() -> None:
    first, second = OpCounts(), OpCounts()
    first.start()
    first.start()
    with pytest.raises(RuntimeError, match="counted already"):
        second.start()
    torch.ones(1)
    del first
    second.start()
    torch.zeros(1)
    second.stop()
    second.stop()
    torch.ones(1)
    assert {row.name for row in second.collect()} == {"aten::zeros", "aten::empty", "aten::zero_"}
    second.start()
    torch.ones(1)
    second.stop()
    assert "aten::ones" in {row.name for row in second.collect()}


@pytest.mark.parametrize("max_names", [0, 2**20 + 1])
def test_an_unusable_number_of_names_is_refused(max_names: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 1048576"):
        OpCounts(max_names=max_names)


@pytest.mark.parametrize("weight", [-1, 2**31])
def test_an_unusable_weight_is_refused(counts: OpCounts, weight: int) -> None:
    with pytest.raises(ValueError, match="an op counts for"):
        counts.sample(weight)


def test_each_op_stands_for_the_weight_of_its_time(counts: OpCounts) -> None:
    torch.ones(1)
    counts.sample(0)
    assert (counts.active, counts.weight) == (False, 0)
    torch.zeros(1)
    with record_function("began while paused"):
        counts.sample(5)
        torch.ones(1)
        counts.sample(1)
    with record_function("began with 1"):
        counts.sample(2)
    assert (counts.active, counts.weight) == (True, 2)
    with record_function("given up"):
        counts.sample(3)
        torch.arange(2)
    calls = {row.name: row.calls for row in counts.collect()}
    assert calls == {
        "aten::ones": 6,
        "aten::fill_": 6,
        "aten::empty": 6 + 3,
        "aten::arange": 2 * 3,
        "aten::resize_": 3,
        "began with 1": 1,
    }
    assert counts.drops == {"interrupted": 1}


def test_many_threads_with_many_names_while_collecting() -> None:
    names, threads, max_names = 10_000, 24, 10_000
    counts = OpCounts(max_names=max_names)
    counts.start()

    def enter_scopes() -> None:
        for i in range(names):
            with record_function(f"scope {i}"):
                pass

    running = [threading.Thread(target=enter_scopes) for _ in range(threads)]
    for thread in running:
        thread.start()
    before: Calls = {}
    while any(thread.is_alive() for thread in running):
        calls = calls_of(counts.collect())
        assert all(calls[key] >= number for key, number in before.items())
        before = calls
        for thread in running:
            thread.join(timeout=0.1 / threads)
    counts.stop()
    by_name = {row.name: row.calls for row in counts.collect()}
    # User scopes get half of the names.
    assert len(by_name) == max_names // 2 + 1
    assert by_name.pop(TABLE_FULL_NAME) == threads * (names - max_names // 2)
    assert set(by_name.values()) == {threads}
    assert counts.counted == threads * names
    assert counts.drops == {"name_table_full": threads * (names - max_names // 2)}


def test_sampled_steps_stand_for_all_steps(counts: OpCounts) -> None:
    # So little may be spent that not every step is counted.
    sampler = StepSampler(counts, max_overhead=1e-3, op_cost_ns=1000, choice=random.Random(7))
    tracker = StepTracker()
    tracker.add_listener(sampler.step_boundary)
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
    # As the hooks of the recorder do it: the boundary is inside the optimizer's own scope.
    optimizer.register_step_post_hook(lambda *_: tracker.advance(StepSource.EXPLICIT, optimizer))
    steps, blocks = 300, [sampler.block_size]
    for _ in range(steps):
        torch.zeros(1)
        optimizer.step()
        blocks.append(sampler.block_size)
    sampler.stop()
    calls = {row.name: row.calls for row in counts.collect()}
    assert counts.counted < 2 * steps
    assert max(blocks) > 1
    # Every whole block adds as many calls as it has steps; the last one may not be over.
    for name in ("aten::zeros", "Optimizer.step#SGD.step"):
        assert abs(calls[name] - steps) <= max(blocks)
    assert counts.drops == {}


def run(script: str, before_torch: str = "") -> tuple[int, str, str]:
    """Runs the script in a fresh interpreter."""
    preamble = """
    import os, threading
    import torch
    from otel_torchprof.recorder.op_counts import OpCounts
    counts = OpCounts()
    counts.start()
    """
    program = before_torch + textwrap.dedent(preamble) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout, done.stderr


def test_a_forked_child_counts_from_zero_once_it_is_told_to() -> None:
    script = """
    torch.ones(1)
    child = os.fork()
    if child == 0:
        torch.zeros(1)
        assert (counts.active, counts.counted, counts.collect(), counts.drops) == (False, 0, [], {})
        counts.sample(3)
        counts.stop()
        counts.start()
        torch.arange(2)
        counts.stop()
        print(*sorted({row.name for row in counts.collect()}), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    torch.ones(1)
    print(next(row.calls for row in counts.collect() if row.name == "aten::ones"))
    """
    assert run(script) == (0, "aten::arange aten::empty aten::resize_\n2\n", "")


def test_the_process_ends_while_threads_count() -> None:
    script = """
    started = threading.Barrier(5)
    def work():
        torch.ones(1)
        started.wait()
        while True:
            torch.ones(1)
    for _ in range(4):
        threading.Thread(target=work, daemon=True).start()
    started.wait()
    print("end", flush=True)
    """
    # Past the exit handlers torch itself aborts, counted or not: see test_capture_lifecycle.py.
    last = "import atexit, os; atexit.register(os._exit, 0)"
    assert run(script, before_torch=last) == (0, "end\n", "")


def test_counting_beside_torchs_own_profiler(counts: OpCounts) -> None:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        torch.ones(1)
    counts.stop()
    assert "aten::ones" in {event.key for event in profiler.key_averages()}
    assert calls_of(counts.collect())["aten::ones", OpPhase.OTHER, False] == 1


def test_numbers_never_get_less(counts: OpCounts) -> None:
    before: dict[str, int] = {}
    for _ in range(50):
        torch.ones(1)
        now = {row.name: row.total_ns for row in counts.collect()}
        assert all(now[name] >= total_ns for name, total_ns in before.items())
        before = now
    assert set(before) == {"aten::ones", "aten::empty", "aten::fill_"}


def test_the_cost_of_counting_is_measured_with_ops_that_are_counted_nowhere_else() -> None:
    beside, counts = OpCounts(max_names=1), OpCounts()
    assert measure_op_cost_ns(beside) > 0
    assert beside.counted >= 1000
    counts.start()  # the other does not count any more
    torch.ones(3)
    counts.stop()
    assert "aten::add" not in {row.name for row in counts.collect()}


def test_the_cost_of_counting_is_assumed_while_anyone_records() -> None:
    capture = Capture()
    capture.start()
    assert measure_op_cost_ns() == ASSUMED_OP_COST_NS
    assert len(capture.stop()) == 0
    with torch.profiler.profile() as theirs:
        assert measure_op_cost_ns() == ASSUMED_OP_COST_NS
    assert "aten::add" not in {event.name for event in theirs.events()}
    assert measure_op_cost_ns() != ASSUMED_OP_COST_NS
