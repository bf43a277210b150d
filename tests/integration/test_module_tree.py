"""What modules cost in real training: totals with the backward, against sums made another way."""
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from otel_torchprof import semconv
from otel_torchprof.analysis.modules import ModuleRow, module_tree
from otel_torchprof.exporters import find_exporter
from otel_torchprof.importers import load
from otel_torchprof.recording import Recording
from otel_torchprof.spans import SpanLimits, plan_spans, roots_from_steps
from tests.support.module_calls import ResNet, Transformer, calls_of, images, tokens
from tests.support.recorded_ops import ops_of, record
from tests.support.required_tools import require_package
from tests.unit.spans.scenes import Run

UNBOUNDED = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0)


def training_step(model: nn.Module, inputs: Callable[[], torch.Tensor]) -> Recording:
    batch = inputs()

    def work() -> None:
        model(batch).sum().backward()

    return record(work, with_modules=True)


def expected_backward_ns(recording: Recording) -> dict[str, int]:
    """By path of the innermost module: time of the outermost backward ops, joined by hand."""
    ops, tree = ops_of(recording), recording.tree()
    paths = {call.row: call.path for call in calls_of(recording)}

    def path_of(row: int) -> str | None:
        return next((paths[above] for above in tree.ancestors(row) if above in paths), None)

    forward = {(op.thread, op.sequence): op.row for op in ops if op.sequence >= 0 and not op.forward_thread}
    backward = {
        op.row: forward[op.forward_thread, op.sequence]
        for op in ops
        if op.forward_thread and (op.forward_thread, op.sequence) in forward
    }
    sums: dict[str, int] = defaultdict(int)
    for row, forward_row in backward.items():
        if any(above in backward for above in tree.ancestors(row)):
            continue
        path = path_of(forward_row)
        if path is not None:
            sums[path] += ops[row].end_ns - ops[row].start_ns
    return dict(sums)


def by_path(rows: list[ModuleRow]) -> dict[str, ModuleRow]:
    assert len({row.path for row in rows}) == len(rows)
    return {row.path: row for row in rows}


@pytest.mark.parametrize(
    ("model", "inputs"), [(ResNet(), images), (Transformer(), tokens)], ids=["resnet", "transformer"]
)
def test_totals_include_the_backward(model: nn.Module, inputs: Callable[[], torch.Tensor]) -> None:
    recording = training_step(model, inputs)
    rows = by_path(module_tree(recording).rows)
    expected = expected_backward_ns(recording)
    assert len(expected) > 8
    assert {path: row.self_backward_ns for path, row in rows.items() if row.self_backward_ns} == expected
    for path, row in rows.items():
        assert row.backward_ns == sum(ns for other, ns in expected.items() if is_within(other, path))


def is_within(path: str, other: str) -> bool:
    return not other or path == other or path.startswith(other + ".")


def test_forward_times_are_those_of_the_calls() -> None:
    recording = training_step(ResNet(), images)
    events, calls = recording.events, calls_of(recording)
    tree = module_tree(recording)
    for index, row in enumerate(tree.rows):
        own = [call.row for call in calls if call.path == row.path]
        assert row.calls == row.training_calls == len(own)
        assert row.forward_ns == sum(int(events.end_ns[call] - events.start_ns[call]) for call in own)
        inner_ns = sum(other.forward_ns for other in tree.rows if other.parent == index)
        assert row.self_forward_ns == row.forward_ns - inner_ns


def test_parameters_are_those_of_the_modules() -> None:
    model = Transformer()
    rows = by_path(module_tree(training_step(model, tokens)).rows)
    for path, row in rows.items():
        module = model.get_submodule(path)
        assert row.parameter_count == sum(parameter.numel() for parameter in module.parameters())
        assert row.parameter_bytes == sum(parameter.nbytes for parameter in module.parameters())


def test_callers_come_before_what_they_call() -> None:
    rows = module_tree(training_step(ResNet(), images)).rows
    assert [row.path for row in rows][:6] == ["", "stem", "stem.0", "stem.1", "stem.2", "layer1"]
    for index, row in enumerate(rows):
        assert row.parent < index
        assert row.depth == (rows[row.parent].depth + 1 if row.parent >= 0 else 0)


def test_events_know_their_module_in_the_backward_too() -> None:
    recording = training_step(ResNet(), images)
    tree = module_tree(recording)
    paths = [tree.rows[index].path if index >= 0 else None for index in tree.module_of_row.tolist()]
    names = [recording.event_name(row) for row in range(len(recording))]
    places = {path for name, path in zip(names, paths, strict=True) if name == "aten::convolution_backward"}
    assert places == {path for path, module in ResNet().named_modules() if isinstance(module, nn.Conv2d)}


@pytest.mark.parametrize("format_name", ["tprof", "chrome", "otlp"])
def test_modules_survive_formats(format_name: str, tmp_path: Path) -> None:
    recording = training_step(ResNet(), images)
    exporter = find_exporter(format_name)
    path = tmp_path / f"modules{exporter.suffixes[0]}"
    exporter.export(recording, path)
    restored, _report = load(path)

    def figures(rows: list[ModuleRow]) -> list[tuple[object, ...]]:
        return [
            (row.class_name, row.path, row.depth, row.calls, row.forward_ns, row.backward_ns) for row in rows
        ]

    assert figures(module_tree(restored).rows) == figures(module_tree(recording).rows)


def test_a_recording_without_modules_has_no_tree() -> None:
    recording = record(lambda: torch.ones(1))
    tree = module_tree(recording)
    assert len(tree) == 0
    assert set(tree.module_of_row.tolist()) == {-1}


def test_folded_stacks_name_modules_with_their_paths(tmp_path: Path) -> None:
    find_exporter("stacks").export(training_step(Transformer(), tokens), tmp_path / "m.folded")
    stacks = [line.rpartition(" ")[0] for line in (tmp_path / "m.folded").read_text("utf-8").splitlines()]
    attention = "Transformer;EncoderLayer (encoder.layers.1);Attention (encoder.layers.1.attn)"
    assert any(stack.startswith(f"{attention};Linear (encoder.layers.1.attn.qkv);") for stack in stacks)


def test_spans_of_modules_and_of_ops_in_them() -> None:
    recording = training_step(ResNet().eval(), images)
    spans = list(plan_spans(recording, roots_from_steps(recording, Run()), UNBOUNDED).spans())
    modules = [span for span in spans if span.attributes.get(semconv.EVENT_KIND) == "module"]
    rows = calls_of(recording)
    assert [(span.name, span.attributes.get(semconv.MODULE_PATH, "")) for span in modules] == [
        (row.name, row.path) for row in rows
    ]
    assert {span.attributes[semconv.MODULE_TRAINING] for span in modules} == {False}
    assert not any(semconv.OP_OVERLOAD in span.attributes for span in modules)
    by_id = {span.span_id: span for span in spans}
    for span in modules[1:]:
        assert by_id[span.parent_span_id] in modules
    for name in ("aten::conv2d", "ConvolutionBackward0"):
        paths = [span.attributes.get(semconv.MODULE_PATH) for span in spans if span.name == name]
        convolutions = {path for path, module in ResNet().named_modules() if isinstance(module, nn.Conv2d)}
        assert set(paths) == convolutions
        assert len(paths) == len(convolutions)


def test_tensorboards_module_view(tmp_path: Path) -> None:
    run_profile_data = require_package("torch_tb_profiler.profiler.data").RunProfileData
    recording = training_step(Transformer(), tokens)
    find_exporter("tensorboard").export(recording, tmp_path / "run")
    (trace,) = (tmp_path / "run").iterdir()
    data = run_profile_data.parse("worker", "1", str(trace), str(tmp_path))
    data.process()
    view = require_package("torch_tb_profiler.profiler.module_op").aggegate_module_view(
        data.tid2tree, data.events
    )

    def rows_of(stats: list[Any], depth: int) -> list[tuple[str, int, int]]:
        rows: list[tuple[str, int, int]] = []
        for module in stats:
            rows += [(module.name, depth, module.occurences), *rows_of(module.children, depth + 1)]
        return rows

    assert sorted(rows_of(view, 0)) == sorted(
        (row.class_name, row.depth, row.calls) for row in module_tree(recording).rows
    )
