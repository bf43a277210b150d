"""Anti-patterns of models and tensors: each program has one fault, or is mended, or only looks alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from otel_torchprof.analysis.patterns import Level, find_patterns
from tests.support.pattern_findings import STEPS, Program, findings_of, only, record_steps


def test_a_loop_over_elements() -> None:
    table, column = torch.zeros(40, 40), torch.arange(40.0)

    def writes(_step: int) -> None:
        for index in range(40):
            table[index] = index

    def adds_pairs(_step: int) -> torch.Tensor:
        total = torch.zeros(())
        for index in range(40):
            total = total + column[index] * table[0, index]
        return total

    def at_once(_step: int) -> torch.Tensor:
        table[:] = column.unsqueeze(1)
        return (column * table[0]).sum()

    def few(_step: int) -> None:
        for index in range(5):
            table[index] = index

    found = only(findings_of(writes, "for-loop-indexing"), writes)
    assert (found.confidence, found.count) == (Level.HIGH, STEPS * 39)  # the last has no next one
    assert only(findings_of(adds_pairs, "for-loop-indexing"), adds_pairs).confidence == Level.HIGH
    assert findings_of(at_once, "for-loop-indexing") == []
    assert findings_of(few, "for-loop-indexing") == []


def test_a_recurrent_cell_may_loop_over_its_inputs() -> None:
    cell, inputs = nn.GRUCell(8, 8), torch.randn(40, 2, 8)

    def unrolled(_step: int) -> torch.Tensor:
        state = torch.zeros(2, 8)
        for index in range(40):
            state = cell(inputs[index], state)
        return state

    assert findings_of(unrolled, "for-loop-indexing") == []


def test_a_tensor_that_grows() -> None:
    def grows(_step: int) -> torch.Tensor:
        result = torch.zeros(1, 4)
        for _ in range(40):
            result = torch.cat([result, torch.ones(1, 4)])
        return result

    def once(_step: int) -> torch.Tensor:
        return torch.cat([torch.zeros(1, 4), *(torch.ones(1, 4) for _ in range(40))])

    found = only(findings_of(grows, "growing-cat"), grows)
    assert (found.confidence, found.count, found.detail) == (Level.HIGH, STEPS * 40, "grew 40 times")
    assert findings_of(once, "growing-cat") == []


def test_dense_blocks_may_grow() -> None:
    layers = nn.ModuleList(nn.Conv2d(2 + 2 * index, 2, 1) for index in range(14))

    def dense(_step: int) -> torch.Tensor:
        features = torch.zeros(1, 2, 4, 4)
        for layer in layers:
            features = torch.cat([features, layer(features)], 1)
        return features

    assert findings_of(dense, "growing-cat") == []


def test_tensors_out_of_lists() -> None:
    numbers, array = [float(number) for number in range(20_000)], np.zeros(20_000, dtype=np.float32)

    def of_list(_step: int) -> torch.Tensor:
        return torch.tensor(numbers)

    def of_array(_step: int) -> torch.Tensor:
        return torch.from_numpy(array)

    def of_copied_array(_step: int) -> torch.Tensor:
        return torch.tensor(array)

    def of_number(_step: int) -> list[torch.Tensor]:
        return [torch.tensor(1.0) for _ in range(300)]

    found = only(findings_of(of_list, "tensor-from-list"), of_list)
    assert (found.confidence, found.severity, found.count) == (Level.HIGH, Level.HIGH, STEPS)
    for program in (of_array, of_copied_array, of_number):
        assert findings_of(program, "tensor-from-list") == []


def test_the_same_conversion_again() -> None:
    mask = torch.ones(256, 256, dtype=torch.int64)

    def converts(_step: int) -> torch.Tensor:
        return mask.to(torch.float32)

    def converts_new(_step: int) -> torch.Tensor:
        return torch.ones(256, 256, dtype=torch.int64).to(torch.float32)

    def converts_what_changes(_step: int) -> torch.Tensor:
        return mask.add_(1).to(torch.float32)

    def needs_no_conversion(_step: int) -> torch.Tensor:
        return mask.to(torch.int64)

    found = only(findings_of(converts, "repeated-conversion"), converts)
    assert (found.confidence, found.count) == (Level.HIGH, STEPS - 1)  # the first is needed
    for program in (converts_new, converts_what_changes, needs_no_conversion):
        assert findings_of(program, "repeated-conversion") == []


def test_broadcasting_by_hand() -> None:
    matrix, row = torch.randn(128, 64), torch.randn(64)

    def repeats(_step: int) -> torch.Tensor:
        return matrix + row.repeat(128, 1)

    def expands(_step: int) -> torch.Tensor:
        return matrix * row.expand(128, 64).contiguous()

    def broadcasts(_step: int) -> torch.Tensor:
        return matrix + row

    def expands_as_a_view(_step: int) -> torch.Tensor:
        return matrix * row.expand(128, 64)

    def tiles(_step: int) -> torch.Tensor:
        return matrix + row[:32].repeat(128, 2)

    def needs_it_whole(_step: int) -> torch.Tensor:
        return row.repeat(128, 1).mm(matrix.t())

    assert only(findings_of(repeats, "materialized-broadcast"), repeats).count == STEPS
    assert only(findings_of(expands, "materialized-broadcast"), expands).count == STEPS
    for program in (broadcasts, expands_as_a_view, tiles, needs_it_whole):
        assert findings_of(program, "materialized-broadcast") == []


def convolutions(*, bias: bool, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 8, 3, bias=bias), norm(8), nn.ReLU())


@pytest.mark.parametrize(
    ("model", "found_in"),
    [
        (convolutions(bias=True), ["0"]),
        (convolutions(bias=False), []),
        (convolutions(bias=True, norm=lambda channels: nn.GroupNorm(2, channels)), []),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.BatchNorm2d(8)), []),
    ],
)
def test_a_bias_before_batch_norm(model: nn.Module, found_in: list[str]) -> None:
    images = torch.randn(2, 3, 8, 8)

    def forward(_step: int) -> torch.Tensor:
        output: torch.Tensor = model(images)
        return output

    findings = findings_of(forward, "conv-bias-before-batch-norm")
    assert [found.place.module for found in findings] == found_in
    assert [only([found], forward).count for found in findings] == [STEPS for _ in findings]


def test_attention_in_separate_ops() -> None:
    q, k, v = torch.randn(3, 2, 4, 32, 16)
    mask = torch.ones(32, 32).tril() == 0

    def by_hand(_step: int) -> torch.Tensor:
        scores = (q @ k.transpose(-1, -2) / math.sqrt(16)).masked_fill(mask, float("-inf"))
        return F.dropout(scores.softmax(-1), 0.1) @ v

    def fused(_step: int) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)

    def classifies(_step: int) -> torch.Tensor:
        return (q @ k.transpose(-1, -2)).softmax(-1)

    def of_other_sizes(_step: int) -> torch.Tensor:
        return (q @ k.transpose(-1, -2)).flatten(2).softmax(-1) @ torch.ones(1024, 3)

    found = only(findings_of(by_hand, "unfused-attention"), by_hand)
    assert (found.confidence, found.count) == (Level.HIGH, STEPS)
    for program in (fused, classifies, of_other_sizes):
        assert findings_of(program, "unfused-attention") == []


def test_what_lies_between_the_products_of_attention_is_part_of_its_cost() -> None:
    q, k, v = torch.randn(3, 2, 4, 32, 16)

    def by_hand(_step: int) -> torch.Tensor:
        scores = q @ k.transpose(-1, -2) / math.sqrt(16)
        return F.dropout(scores.softmax(-1), 0.1) @ v

    recording = record_steps(by_hand)
    (found,) = (
        finding for finding in find_patterns(recording).findings if finding.pattern == "unfused-attention"
    )
    events = recording.events
    counted = np.isin(
        [recording.event_name(row) for row in range(len(recording))],
        ["aten::matmul", "aten::div", "aten::softmax", "aten::dropout"],
    )
    assert found.cost_ns == (events.end_ns - events.start_ns)[counted].sum()


class Model(nn.Module):
    """With what training mode matters to."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 8))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.layers(inputs)
        return outputs


def evaluation(*, training: bool = False, gradients: bool = False) -> Program:
    model, inputs = Model().train(training), torch.randn(4, 8)

    def evaluate(_step: int) -> Any:
        with torch.set_grad_enabled(gradients):
            return model(inputs)

    return evaluate


def test_evaluating_with_a_graph() -> None:
    wasteful = evaluation(gradients=True)
    found = only(findings_of(wasteful, "graph-without-backward"), wasteful)
    assert (found.confidence, found.count) == (Level.HIGH, STEPS)
    assert findings_of(evaluation(), "graph-without-backward") == []


def test_training_in_evaluation_mode_uses_its_graph() -> None:
    model, inputs = Model().eval(), torch.randn(4, 8)

    def tunes(_step: int) -> None:
        model(inputs).sum().backward()

    def frozen(_step: int) -> torch.Tensor:
        outputs: torch.Tensor = model(inputs)
        return outputs

    assert findings_of(tunes, "graph-without-backward") == []
    model.requires_grad_(False)
    assert findings_of(frozen, "graph-without-backward") == []


def test_evaluating_in_training_mode() -> None:
    wrong = evaluation(training=True)
    found = only(findings_of(wrong, "training-mode-without-gradients"), wrong)
    assert (found.confidence, found.severity, found.count) == (Level.MEDIUM, Level.MEDIUM, STEPS)
    for program in (evaluation(), evaluation(training=True, gradients=True)):
        assert findings_of(program, "training-mode-without-gradients") == []


def test_checkpointed_activations_are_no_evaluation() -> None:
    model, inputs = Model(), torch.randn(4, 8, requires_grad=True)

    def checkpoints(_step: int) -> None:
        torch.utils.checkpoint.checkpoint(model, inputs, use_reentrant=True).sum().backward()

    assert findings_of(checkpoints, "training-mode-without-gradients") == []


@pytest.mark.parametrize(
    "transpose",
    [
        lambda x: x.transpose(-1, -2),
        lambda x: x.transpose(1, 0) if x.dim() == 2 else x.transpose(2, 1),
        lambda x: x.mT,
        lambda x: x.t() if x.dim() == 2 else x.permute(0, 2, 1),
    ],
)
@pytest.mark.parametrize("sizes", [(4, 64, 32), (128, 64)])
def test_a_transposed_matrix_that_is_copied(
    sizes: tuple[int, ...], transpose: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    q, k = torch.randn(2, *sizes)

    def copies(_step: int) -> torch.Tensor:
        return q @ transpose(k).contiguous()

    def does_not(_step: int) -> torch.Tensor:
        return q @ transpose(k)

    found = only(findings_of(copies, "contiguous-before-matmul"), copies)
    assert (found.confidence, found.count, found.place.op) == (Level.MEDIUM, STEPS, "aten::contiguous")
    assert findings_of(does_not, "contiguous-before-matmul") == []


def test_copies_of_transposed_tensors_that_are_needed() -> None:
    heads, small = torch.randn(2, 16, 4, 32), torch.randn(8, 8)

    def for_a_view(_step: int) -> torch.Tensor:
        return heads.transpose(-1, -2).contiguous().view(32, 128) @ torch.ones(128, 2)

    def heads_first(_step: int) -> torch.Tensor:
        return heads.permute(0, 2, 1, 3).contiguous() @ torch.ones(32, 2)

    def is_small(_step: int) -> torch.Tensor:
        return small @ small.t().contiguous()

    def is_so_already(_step: int) -> torch.Tensor:
        return heads @ heads.mT.contiguous().mT.mT.contiguous()

    for program in (for_a_view, heads_first, is_small):
        assert findings_of(program, "contiguous-before-matmul") == []
    # The first copy is followed by a transpose, the second copies nothing.
    assert findings_of(is_so_already, "contiguous-before-matmul") == []
