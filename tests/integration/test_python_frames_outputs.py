"""What becomes of Python calls in everything that is made of a recording."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from otel_torchprof import semconv
from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import EventKind, Recording
from otel_torchprof.spans import SpanLimits, plan_spans, roots_from_steps
from tests.support.call_trees import recorded_roots
from tests.support.chrome_rules import broken_rules, of_phase, read_strictly
from tests.support.required_tools import require_package
from tests.unit.spans.scenes import Run


def compute() -> torch.Tensor:
    return torch.add(torch.ones(2), 1)


LINE = compute.__code__.co_firstlineno


@pytest.fixture(scope="module")
def recording() -> Recording:
    capture = Capture(options=CaptureOptions(with_stack=True))
    capture.start()
    capture.begin_step(1)
    sorted([2, 1], key=lambda _n: compute().sum())
    capture.end_step()
    return capture.stop()


def test_a_trace_has_the_calls_as_kineto_writes_them(recording: Recording, tmp_path: Path) -> None:
    export(recording, tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text("utf-8"))["traceEvents"]
    calls = [event for event in events if event.get("cat") == "python_function"]
    named = [event for event in calls if event["name"] == f"{__file__}({LINE}): compute"]
    assert len(named) == 2
    by_id = {event["args"]["Python id"]: event for event in calls}
    parent = by_id[named[0]["args"]["Python parent id"]]
    assert parent["name"].endswith("recording.<locals>.<lambda>")
    assert by_id[parent["args"]["Python parent id"]]["name"] == "<built-in function sorted>"
    assert not [event for event in calls if "Overload name" in event["args"]]


def test_a_trace_is_read_back_as_it_was(recording: Recording, tmp_path: Path) -> None:
    export(recording, tmp_path / "trace.json")
    read_back, report = load(tmp_path / "trace.json")
    assert not report.problems
    assert [root.lines() for root in recorded_roots(read_back)] == [
        root.lines() for root in recorded_roots(recording)
    ]


def test_folded_stacks_have_functions_with_their_places(recording: Recording, tmp_path: Path) -> None:
    export(recording, tmp_path / "calls.folded")
    lines = (tmp_path / "calls.folded").read_text("utf-8").splitlines()
    (line,) = [line for line in lines if line.rpartition(" ")[0].endswith(";aten::add")]
    stack = line.rpartition(" ")[0].split(";")
    assert f"compute ({__file__}:{LINE})" in stack
    assert stack.index("sorted") < stack.index(f"compute ({__file__}:{LINE})") < stack.index("aten::add")


def test_spans_say_which_function_called_them(recording: Recording) -> None:
    unbounded = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0)
    plan = plan_spans(recording, roots_from_steps(recording, Run()), unbounded)
    spans = [span for span in plan.spans() if span.name == "aten::add"]
    assert spans
    for span in spans:
        assert span.attributes[semconv.CODE_FUNCTION_NAME] == "compute"
        assert span.attributes[semconv.CODE_FILE_PATH] == __file__
        assert span.attributes[semconv.CODE_LINE_NUMBER] == LINE
        assert semconv.EVENT_KIND not in span.attributes


def test_spans_of_functions_are_read_back(recording: Recording, tmp_path: Path) -> None:
    export(recording, tmp_path / "spans.jsonl", "otlp-json")
    read_back, report = load(tmp_path / "spans.jsonl")
    names = [
        (read_back.event_name(row), read_back.overload_name(int(read_back.events.name[row])))
        for row in range(len(read_back))
        if read_back.events.kind[row] == EventKind.PYTHON
    ]
    assert ("compute", f"{__file__}:{LINE}") in names
    assert not report.problems


def test_tensorboards_plugin_groups_ops_by_their_stack(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = require_package("torch_tb_profiler.profiler.data").RunProfileData
    generator = require_package("torch_tb_profiler.profiler.run_generator").RunGenerator
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    export(recording, tmp_path / "run", "tensorboard")
    (trace,) = (tmp_path / "run").iterdir()
    profile = generator(
        "worker", "1", data.parse("worker", "1", str(trace), str(tmp_path))
    ).generate_run_profile()
    (row,) = profile.operation_stack_by_name["aten::add"]["data"]
    assert row["calls"] == 2
    assert row["call_stack"].split(";")[0] == f"{__file__}({LINE}): compute"


@pytest.fixture(scope="module")
def scopes() -> Recording:
    """Scopes entered as programs do it: by a statement, by a context manager, by a decorator."""

    @contextlib.contextmanager
    def phase() -> Iterator[None]:
        with torch.profiler.record_function("phase"):
            yield

    @torch.profiler.record_function("decorated")
    def decorated() -> None:
        compute()

    capture = Capture(options=CaptureOptions(with_stack=True))
    capture.start()
    for _ in range(2):
        with torch.profiler.record_function("statement"), torch.profiler.record_function("inner"):
            compute()
        with phase():
            compute()
        decorated()
    return capture.stop()


@pytest.mark.parametrize("format_name", ["chrome", "tensorboard"])
def test_scopes_are_slices_beside_the_calls_that_enter_them(
    scopes: Recording, tmp_path: Path, format_name: str
) -> None:
    out = tmp_path / ("trace.json" if format_name == "chrome" else "run")
    export(scopes, out, format_name)
    (path,) = [out] if out.is_file() else out.iterdir()
    trace = read_strictly(path)
    assert not broken_rules(trace)
    names = Counter(event["name"] for event in of_phase(trace, "X", "user_annotation"))
    assert names == {"statement": 2, "inner": 2, "phase": 2, "decorated": 2}
    assert not of_phase(trace, "b")


@pytest.mark.parametrize("name", ["trace.json", "run"])
def test_a_trace_of_scopes_and_steps_is_read_back_as_it_was(
    recording: Recording, scopes: Recording, tmp_path: Path, name: str
) -> None:
    for recorded in (recording, scopes):
        out = tmp_path / f"{len(recorded)} {name}"
        export(recorded, out, "chrome" if name.endswith("json") else "tensorboard")
        (path,) = [out] if out.is_file() else out.iterdir()
        read_back, _report = load(path)
        assert len(read_back) == len(recorded)
        assert read_back.tree().self_ns.sum() == recorded.tree().self_ns.sum()
        assert [(step.number, step.start_ns, step.end_ns, step.flags) for step in read_back.steps] == [
            (step.number, step.start_ns, step.end_ns, step.flags) for step in recorded.steps
        ]


def test_spans_read_back_say_which_steps_are_whole(recording: Recording, tmp_path: Path) -> None:
    """Functions that were entered before the step do not make it partial."""
    assert (recording.events.start_ns < recording.steps[0].start_ns).any()
    export(recording, tmp_path / "spans.otlp")
    read_back, _report = load(tmp_path / "spans.otlp")
    assert [step.flags for step in read_back.steps] == [step.flags for step in recording.steps]
    assert read_back.tree().self_ns.sum() == recording.tree().self_ns.sum()


def test_no_time_of_a_scope_counts_twice(scopes: Recording) -> None:
    events, tree = scopes.events, scopes.tree()
    for track in set(events.track.tolist()):
        rows = np.flatnonzero(events.track == track)
        roots = [row for row in rows.tolist() if tree.parent[row] < 0]
        assert tree.self_ns[rows].sum() == sum(
            int(events.end_ns[row] - events.start_ns[row]) for row in roots
        )
    for row in range(len(scopes)):
        if scopes.event_name(row) == "inner":
            assert scopes.event_name(int(tree.parent[row])) == "statement"
            assert tree.self_ns[row] < events.end_ns[row] - events.start_ns[row]


class Residual(torch.nn.Module):
    """Calls a layer, which has a hook: another function calls its `forward` then."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.layer.register_forward_hook(lambda _module, _arguments, output: output * 2)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.relu(self.layer(batch)) + batch


def _recorded_model(*, with_modules: bool = False) -> Recording:
    model = Residual()
    capture = Capture(options=CaptureOptions(with_stack=True, with_modules=with_modules))
    capture.start()
    model(torch.ones(2, 4))
    model(torch.ones(2, 4))
    return capture.stop()


def test_calls_of_modules_are_named_as_kineto_names_them(tmp_path: Path) -> None:
    recording = _recorded_model()
    export(recording, tmp_path / "trace.json")
    trace = read_strictly(tmp_path / "trace.json")
    calls = [event for event in of_phase(trace, "X") if event["name"].startswith("nn.Module: ")]
    assert Counter(call["name"] for call in calls) == {"nn.Module: Residual": 2, "nn.Module: Linear": 2}
    assert len({call["args"]["Python module id"] for call in calls}) == 2
    # Nothing but the name in the trace is another: the recording comes back with its functions.
    read_back, _report = load(tmp_path / "trace.json")
    assert [root.lines() for root in recorded_roots(read_back)] == [
        root.lines() for root in recorded_roots(recording)
    ]
    assert (read_back.events.kind == recording.events.kind).all()


def test_calls_of_modules_are_there_once_where_modules_were_recorded(tmp_path: Path) -> None:
    export(_recorded_model(with_modules=True), tmp_path / "trace.json")
    names = Counter(event["name"] for event in of_phase(read_strictly(tmp_path / "trace.json"), "X"))
    assert names["nn.Module: Residual"] == names["nn.Module: Linear"] == 2


def test_tensorboards_plugin_has_its_module_view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = require_package("torch_tb_profiler.profiler.data").RunProfileData
    modules_of = require_package("torch_tb_profiler.profiler.module_op").aggegate_module_view
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    export(_recorded_model(), tmp_path / "run", "tensorboard")
    (trace,) = (tmp_path / "run").iterdir()
    profile = data.parse("worker", "1", str(trace), str(tmp_path))
    (model,) = modules_of(profile.tid2tree, profile.events)
    assert (model.name, model.occurences) == ("Residual", 2)
    assert [(child.name, child.occurences) for child in model.children] == [("Linear", 2)]
