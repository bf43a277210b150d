"""Recording modules leaves programs as they are: results, exceptions, compilers, tracers, forks, threads."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def"

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import threading
import weakref
from collections import Counter

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters

from otel_torchprof._native import core
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import EventFlags, Recording
from tests.support.module_calls import (
    ResNet,
    Transformer,
    calls_of,
    hooked,
    images,
    paths_of,
    record_modules,
    tokens,
)
from tests.support.recorded_ops import names_of, record

MODULES = CaptureOptions(with_modules=True)


def started() -> Capture:
    capture = Capture(options=MODULES)
    capture.start()
    return capture


def test_nothing_of_it_is_there_without_the_option_and_after_the_capture() -> None:
    original = nn.Module.__call__
    capture = Capture()
    capture.start()
    assert nn.Module.__call__ is original
    capture.stop()
    capture = started()
    assert nn.Module.__call__ is not original
    assert nn.Module.__call__.__wrapped__ is original
    assert capture.stop().metadata["sources"] == {"modules": "on"}
    assert nn.Module.__call__ is original


def test_results_are_the_same() -> None:
    model, inputs = Transformer(), tokens()
    expected = model(inputs)
    results: list[torch.Tensor] = []
    record_modules(lambda: results.append(model(inputs)))
    assert torch.equal(results[0], expected)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        expected = model(inputs)
        record_modules(lambda: results.append(model(inputs)))
    assert torch.equal(results[1], expected)


def test_an_exception_in_a_forward_ends_its_calls_and_comes_through() -> None:
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("mine")

    model = nn.Sequential(nn.Sequential(Failing()), nn.ReLU())

    def work() -> None:
        with pytest.raises(ValueError, match=r"^mine$"):
            model(torch.ones(1))
        model[1](torch.ones(1))

    calls = record_modules(work)
    assert [(call.path, call.around, EventFlags.UNFINISHED in call.flags) for call in calls] == [
        ("", None, False),
        ("0", "", False),
        ("0.0", "0", False),
        ("", None, False),
    ]


def test_captures_that_start_and_stop_in_the_middle_of_calls() -> None:
    inner: list[Capture] = []
    recordings: list[Recording] = []

    class Switch(nn.Module):
        def forward(self, x):
            if inner:
                recordings.append(inner.pop().stop())
            else:
                inner.append(started())
            return x

    model = nn.Sequential(nn.Identity(), Switch(), nn.Identity(), Switch(), nn.Identity())
    outer = started()
    model(torch.ones(1))
    recordings.append(outer.stop())
    # The inner one began in a call and ended in another, neither of which is a loss.
    assert paths_of(calls_of(recordings[0])) == [("Identity", "2"), ("Switch", "3")]
    assert EventFlags.UNFINISHED in calls_of(recordings[0])[1].flags
    assert [path for _name, path in paths_of(calls_of(recordings[1]))] == ["", "0", "1", "2", "3", "4"]
    assert not any(EventFlags.UNFINISHED in call.flags for call in calls_of(recordings[1]))
    assert recordings[0].drops == recordings[1].drops == {}


def test_ops_lie_in_their_modules_on_all_threads_at_once() -> None:
    model, inputs = ResNet(), images()
    with hooked(model) as expected:
        model(inputs)

    def work() -> None:
        barrier = threading.Barrier(4)

        def run() -> None:
            barrier.wait()
            for _ in range(5):
                model(inputs)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    recording = record(work, with_modules=True)
    calls = {call.row: call for call in calls_of(recording)}
    assert Counter((call.name, call.path) for call in calls.values()) == {
        call: 20 * times for call, times in Counter(expected).items()
    }
    tree = recording.tree()
    for row in range(len(recording)):
        if recording.event_name(row) == "aten::conv2d":
            around = calls[int(tree.parent[row])]
            assert around.name == "Conv2d"
    assert recording.drops == {}


class TestCompiled:
    """Nothing about a compiled model changes: no graph breaks, and none is compiled again."""

    @pytest.fixture(autouse=True)
    def _fresh(self):
        torch._dynamo.reset()
        counters.clear()
        yield
        torch._dynamo.reset()

    @staticmethod
    def graphs() -> int:
        return counters["stats"]["unique_graphs"]

    @pytest.mark.parametrize("hooks", [False, True])
    @pytest.mark.parametrize("compiled_first", [False, True])
    def test_a_full_graph(self, hooks: bool, compiled_first: bool) -> None:
        model, inputs = ResNet(), images()
        if hooks:
            model.stem.register_forward_hook(lambda _module, _inputs, output: output + 0)
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        if compiled_first:
            compiled(inputs)
        capture = started()
        compiled(inputs)
        compiled(inputs)
        calls = calls_of(capture.stop())
        compiled(inputs)
        assert self.graphs() == 1
        assert [(call.name, call.path) for call in calls] == [("OptimizedModule", "")] * 2

    def test_a_module_compiled_in_place_within_an_eager_one(self) -> None:
        model = nn.Sequential(ResNet(), nn.Linear(3, 2))
        model[0].compile(fullgraph=True, backend="eager")
        model(images())
        calls = record_modules(lambda: model(images()))
        assert self.graphs() == 1
        assert paths_of(calls) == [("Sequential", ""), ("ResNet", "0"), ("Linear", "1")]

    def test_graph_breaks_stay_the_ones_there_are(self) -> None:
        class Breaking(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                x = self.linear(x)
                torch._dynamo.graph_break()
                return self.linear(x)

        compiled = torch.compile(nn.Sequential(Breaking(), Breaking()), backend="eager")
        compiled(torch.ones(4))
        before = self.graphs()
        record_modules(lambda: compiled(torch.ones(4)))
        compiled(torch.ones(4))
        assert self.graphs() == before

    def test_export(self) -> None:
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        programs: list[torch.export.ExportedProgram] = []
        record_modules(
            lambda: programs.extend(
                torch.export.export(model, (torch.ones(4),), strict=strict) for strict in (False, True)
            )
        )
        for program in programs:
            assert torch.equal(program.module()(torch.ones(4)), model(torch.ones(4)))


def test_tracers_see_nothing_of_it() -> None:
    model, inputs = ResNet().eval(), images()

    def traced_graph() -> str:
        return re.sub(r"___torch_mangle_\d+\.", "", str(torch.jit.trace(model, inputs).inlined_graph))

    expected_graph = traced_graph()
    expected_code = torch.fx.symbolic_trace(model).code
    traced: list[object] = []

    def work() -> None:
        traced.append(traced_graph())
        traced.append(torch.fx.symbolic_trace(model).code)
        traced.append(torch.vmap(model.fc)(torch.ones(5, 8)).shape)
        torch.jit.script(model)

    record_modules(work)
    assert traced == [expected_graph, expected_code, (5, 3)]


def test_a_capture_that_stops_while_somebody_else_wraps_the_call() -> None:
    original = nn.Module.__call__
    capture = started()
    ours = nn.Module.__call__

    def theirs(self, *args):
        return ours(self, *args)

    nn.Module.__call__ = theirs
    try:
        capture.stop()
        assert torch.equal(nn.Identity()(torch.ones(1)), torch.ones(1))
        nn.Module.__call__ = ours  # as torch.fx puts back what it found
        calls = record_modules(lambda: nn.Identity()(torch.ones(1)))
        assert paths_of(calls) == [("Identity", "")]
        assert nn.Module.__call__ is original
    finally:
        nn.Module.__call__ = original


def test_several_captures_at_once() -> None:
    first = started()
    nn.ReLU()(torch.ones(1))
    second = started()
    nn.Tanh()(torch.ones(1))
    assert paths_of(calls_of(first.stop())) == [("ReLU", ""), ("Tanh", "")]
    nn.Sigmoid()(torch.ones(1))
    assert paths_of(calls_of(second.stop())) == [("Tanh", ""), ("Sigmoid", "")]


def test_the_child_of_a_fork_records_nothing_and_then_its_own() -> None:
    capture = started()
    original = nn.Module.__call__.__wrapped__
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            assert nn.Module.__call__ is original
            nn.ReLU()(torch.ones(1))
            assert paths_of(record_modules(lambda: nn.Tanh()(torch.ones(1)))) == [("Tanh", "")]
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0
    nn.Sigmoid()(torch.ones(1))
    assert paths_of(calls_of(capture.stop())) == [("Sigmoid", "")]


def test_objects_that_are_no_modules_are_left_alone() -> None:
    capture = started()
    assert core.begin_module(object()) is False  # takes no weak reference
    core.end_module(object())
    assert names_of(capture.stop()) == {}


def test_metadata_describes_what_was_called() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.BatchNorm1d(3)))
    model[0].bias.requires_grad_(False)
    recording = record(lambda: model(torch.ones(2, 4)), with_modules=True)
    modules = {module["path"]: module for module in recording.metadata["modules.0"]}
    assert set(modules) == {"", "0", "1", "1.0"}
    assert modules[""]["qualified_class"] == "torch.nn.modules.container.Sequential"
    assert modules[""]["parameter_count"] == 4 * 3 + 3 + 2 * 3
    assert modules[""]["trainable_count"] == 4 * 3 + 2 * 3
    assert modules[""]["parameter_bytes"] == 4 * modules[""]["parameter_count"]
    assert modules[""]["parameters"] == []
    assert modules["0"]["root"] == "Sequential"
    assert modules["0"]["parameters"] == [
        ["weight", model[0].weight.data_ptr(), 48],
        ["bias", model[0].bias.data_ptr(), 12],
    ]


def test_modules_without_real_parameters_are_described_as_far_as_it_goes() -> None:
    class Odd(nn.Module):
        def forward(self, x):
            return x

        def parameters(self, recurse: bool = True):
            raise RuntimeError("not now")

    recording = record(lambda: Odd()(torch.ones(1)), with_modules=True)
    (module,) = recording.metadata["modules.0"]
    assert module["class"] == "Odd"
    assert "parameter_count" not in module


def test_a_model_of_fake_tensors_gives_no_warning() -> None:
    # In a process of its own: torch warns once.
    program = """
import warnings, torch
from torch._subclasses.fake_tensor import FakeTensorMode
from otel_torchprof import profile
warnings.simplefilter("ignore")
with FakeTensorMode():
    model = torch.nn.Linear(3, 3)
    batch = torch.ones(2, 3)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    with profile(with_modules=True, profile_memory=True, record_shapes=True):
        model(batch)
assert not caught, [str(warning.message) for warning in caught]
"""
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stderr


def test_calls_that_end_in_any_order() -> None:
    # As green threads make them: each leaves its calls when it is resumed.
    first, second, third = nn.ReLU(), nn.Tanh(), nn.Sigmoid()

    def work() -> None:
        assert core.begin_module(first)
        assert core.begin_module(second)
        core.end_module(first)
        assert core.begin_module(third)
        core.end_module(second)
        core.end_module(third)
        core.end_module(third)  # not open any more
        first(torch.ones(1))

    recording = record(work, with_modules=True)
    assert sorted(paths_of(calls_of(recording))) == [
        ("ReLU", ""),
        ("ReLU", ""),
        ("Sigmoid", ""),
        ("Tanh", ""),
    ]
    assert not any(EventFlags.UNFINISHED in call.flags for call in calls_of(recording))
    assert recording.drops == {}


def test_many_modules_that_live_shortly() -> None:
    model = nn.Sequential(nn.Identity())
    x = torch.ones(1)

    def work() -> None:
        for _ in range(5000):  # more than are remembered before the dead are looked for
            nn.Sequential(nn.Identity())(x)
        model(x)
        for _ in range(5000):
            nn.Tanh()(x)
        model(x)

    calls = record_modules(work)
    assert len(calls) == 2 * 5000 + 5000 + 4
    assert paths_of(calls[10_000:10_002]) == paths_of(calls[-2:]) == [("Sequential", ""), ("Identity", "0")]


def test_a_finalizer_that_calls_modules_in_the_middle_of_a_first_call() -> None:
    x = torch.ones(1)
    finalized = nn.Sequential(nn.Tanh())

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            finalized(x)

    def work() -> None:
        thresholds = gc.get_threshold()
        gc.set_threshold(1)
        try:
            for _ in range(200):
                Cycle()
                nn.Sequential(nn.Identity(), nn.ReLU())(x)
            gc.collect()
        finally:
            gc.set_threshold(*thresholds)

    calls = record_modules(work)
    paths = Counter(paths_of(calls))
    assert paths["Identity", "0"] == paths["ReLU", "1"] == paths["Tanh", "0"] == 200
    assert not any(EventFlags.UNFINISHED in call.flags for call in calls)


def test_nothing_is_left_after_many_captures() -> None:
    model, inputs = ResNet(), images()
    references = weakref.getweakrefcount(model)  # Dynamo has one, where it is loaded
    record_modules(lambda: model(inputs))
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(20):
        capture = started()
        model(inputs)
        capture.halt()
        del capture
    gc.collect()
    assert len(gc.get_objects()) < before + 100
    assert weakref.getweakrefcount(model) == references
