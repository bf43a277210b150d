"""Which category each block is in, and when that changes. The rules stand in docs/memory.md."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from otel_torchprof.analysis.memory.blocks import Blocks
from otel_torchprof.analysis.memory.category import CATEGORY_OF_ROLE, Category
from otel_torchprof.analysis.memory.data_flow import Node, data_flow
from otel_torchprof.analysis.memory.gradients import accumulated_gradients
from otel_torchprof.analysis.memory.operators import NONE, Operators
from otel_torchprof.analysis.memory.places import Numbers
from otel_torchprof.recording import Recording, TensorFlags, TensorRole

_FROM_GRADIENTS = frozenset({Category.GRADIENT, Category.AUTOGRAD_DETAIL})
_FROM_MODEL = frozenset({Category.PARAMETER, Category.ACTIVATION, Category.OPTIMIZER_STATE})


@dataclass(frozen=True, eq=False)
class Categories:
    """By block the category that it begins in; and its further versions, in order of time."""

    first: Numbers
    change_time_ns: Numbers
    change_block: Numbers
    change_from: Numbers
    change_to: Numbers


def categorize(recording: Recording, blocks: Blocks, operators: Operators) -> Categories:
    """Follows the data through all operators, once."""
    walk = _Walk(recording, blocks, operators)
    for node in data_flow(recording, blocks, operators):
        walk.visit(node)
    changes = np.array(walk.changes, dtype=np.int64).reshape(-1, 4)
    return Categories(np.array(walk.first, dtype=np.int64), *changes.T.copy())


class _Walk:
    """The categories so far, while operators are visited in order of time."""

    def __init__(self, recording: Recording, blocks: Blocks, operators: Operators) -> None:
        count = len(blocks)
        self.first: list[Category] = [Category.UNKNOWN] * count
        self.changes: list[tuple[int, int, Category, Category]] = []
        self._now: list[Category] = [Category.UNKNOWN] * count
        self._in_backward = operators.in_backward.tolist()
        self._optimizer_step = operators.optimizer_step.tolist()
        self._step_end_ns = recording.events.end_ns
        self._end_ns = blocks.end_ns.tolist()
        self._is_fixed = [False] * count
        for block, category in _fixed_categories(recording, blocks, operators).items():
            self._is_fixed[block] = True
            self._begin(block, category)

    def _begin(self, block: int, category: Category) -> None:
        self.first[block] = self._now[block] = category

    def visit(self, node: Node) -> None:
        """Gives what the operator made or wrote a category, and what it is the first to read."""
        for block in node.inputs:
            if self._now[block] is Category.UNKNOWN:
                self._begin(block, self._category_of_unseen(node))
        result = self._category_of_result(node)
        for block in node.made:
            if not self._is_fixed[block]:
                self._begin(block, self._category_of_made(node, block, result))
        for block in node.written:
            before = self._now[block]
            after = before if self._is_fixed[block] else _after_write(before, result)
            self._now[block] = after
            self.changes.append((node.time_ns, block, before, after))

    def _category_of_unseen(self, node: Node) -> Category:
        """Of what an operator reads and nobody was seen to make."""
        if self._is_in_backward(node):
            return Category.ACTIVATION  # saved by a forward pass before the recording
        return Category.INPUT

    def _category_of_result(self, node: Node) -> Category:
        if self._is_in_backward(node):
            return Category.AUTOGRAD_DETAIL
        inputs = {self._now[block] for block in node.inputs}
        if inputs & _FROM_GRADIENTS:
            return Category.AUTOGRAD_DETAIL
        if inputs & _FROM_MODEL:
            return Category.ACTIVATION
        return Category.INPUT if node.operator != NONE else Category.UNKNOWN

    def _category_of_made(self, node: Node, block: int, result: Category) -> Category:
        step = self._optimizer_step[node.event] if node.event != NONE else NONE
        if step == NONE:
            return result
        outlives_step = self._end_ns[block] > self._step_end_ns[step]
        return Category.OPTIMIZER_STATE if outlives_step else Category.TEMPORARY

    def _is_in_backward(self, node: Node) -> bool:
        return node.event != NONE and self._in_backward[node.event]


def _after_write(before: Category, result: Category) -> Category:
    """Writing model values into what the model was given makes it an activation; nothing else changes."""
    if before in {Category.INPUT, Category.UNKNOWN} and result is not Category.AUTOGRAD_DETAIL:
        return result if result is not Category.UNKNOWN else before
    return before


def _fixed_categories(recording: Recording, blocks: Blocks, operators: Operators) -> dict[int, Category]:
    """Blocks whose category does not depend on the flow of data."""
    fixed: dict[int, Category] = {}
    for block in _temporaries(blocks, operators).tolist():
        fixed[block] = Category.TEMPORARY
    for block in accumulated_gradients(recording, blocks):
        fixed[block] = Category.GRADIENT
    roles = recording.tensor_roles["role"]
    if not (roles == TensorRole.PARAMETER).any():
        for block in _trainable_leaves(recording, blocks, operators):
            fixed[block] = Category.PARAMETER
    for role, category in reversed(CATEGORY_OF_ROLE.items()):
        for block in np.unique(blocks.of_role[roles == role]).tolist():
            if block >= 0:
                fixed[block] = category
    return fixed


def _temporaries(blocks: Blocks, operators: Operators) -> Numbers:
    """What an operator allocates and frees itself."""
    known = (blocks.event >= 0) & (blocks.free_event >= 0)
    made_in = operators.operator[np.where(known, blocks.event, 0)] if len(operators.operator) else NONE
    freed_in = operators.operator[np.where(known, blocks.free_event, 0)] if len(operators.operator) else NONE
    return np.flatnonzero(known & (made_in != NONE) & (made_in == freed_in))


def _trainable_leaves(recording: Recording, blocks: Blocks, operators: Operators) -> set[int]:
    """Without notes of parameters: what requires a gradient and was made by no operator that took such."""
    tensors = recording.tensors
    requires_gradient = tensors["flags"] & TensorFlags.REQUIRES_GRAD != 0
    if not requires_gradient.any():
        return set()
    differentiable = np.unique(operators.operator[tensors["event"][requires_gradient]])
    candidates = np.unique(blocks.of_tensor[requires_gradient & (blocks.of_tensor >= 0)])
    events = blocks.event[candidates]
    made_in = np.where(events >= 0, operators.operator[np.maximum(events, 0)], NONE)
    is_result = (made_in != NONE) & np.isin(made_in, differentiable)
    return {int(block) for block in candidates[~is_result]}
