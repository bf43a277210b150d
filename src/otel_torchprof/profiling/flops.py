"""How many floating point operations an op did, from the shapes and values of its inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import EventKind, InputList, InputValue, Recording, TensorInput

Inputs = Sequence[InputValue]
Sizes = tuple[int, ...]


def flops_of(name: str, inputs: Inputs) -> int:
    """Floating point operations of one call; 0 for ops without a formula and inputs that do not fit it.

    A multiplication and an addition are two operations. `mul` and `add` count the elements of their first
    input, as in torch.
    """
    formula = FORMULAS.get(name)
    if formula is None:
        return 0
    try:
        return formula(inputs)
    except (IndexError, TypeError, ValueError, ZeroDivisionError):
        return 0


def _sizes(inputs: Inputs, index: int) -> Sizes:
    value = inputs[index]
    if not isinstance(value, TensorInput):
        raise TypeError("no tensor")
    return value.sizes


def _mm(inputs: Inputs, first: int = 0) -> int:
    (rows, inner), (_inner, columns) = _sizes(inputs, first), _sizes(inputs, first + 1)
    return 2 * rows * inner * columns


def _bmm(inputs: Inputs, first: int = 0) -> int:
    (batch, rows, inner), (_batch, _inner, columns) = _sizes(inputs, first), _sizes(inputs, first + 1)
    return 2 * batch * rows * inner * columns


def _linear(inputs: Inputs) -> int:
    value, weight = _sizes(inputs, 0), _sizes(inputs, 1)
    return 2 * prod(value) * (weight[0] if len(weight) > 1 else 1)


def _elementwise(inputs: Inputs) -> int:
    return prod(_sizes(inputs, 0))


def _numbers(value: InputValue, count: int) -> list[int]:
    if not isinstance(value, InputList):
        raise TypeError("no list")
    numbers = [item for item in value.items if isinstance(item, int)]
    if len(numbers) == 1:
        return numbers * count
    if len(numbers) != count:
        raise ValueError("of another dimension")
    return numbers


def _convolution(
    value: Sizes, weight: Sizes, stride: list[int], padding: list[int], dilation: list[int]
) -> int:
    batch, kernel = value[0], weight[2:]
    out = [
        (size + 2 * pad - dil * (width - 1) - 1) // step + 1
        for size, pad, dil, width, step in zip(value[2:], padding, dilation, kernel, stride, strict=True)
    ]
    return 2 * batch * prod(out) * prod(weight)


def _transposed(value: Sizes, weight: Sizes) -> int:
    # Each element of the input meets each of the weights of its channel.
    return 2 * value[0] * prod(value[2:]) * prod(weight)


def _conv(inputs: Inputs) -> int:
    """conv1d, conv2d, conv3d: input, weight, bias, stride, padding, dilation, groups."""
    value, weight = _sizes(inputs, 0), _sizes(inputs, 1)
    rank = len(weight) - 2
    value = value if len(value) == rank + 2 else (1, *value)
    stride, padding, dilation = (_numbers(inputs[place], rank) for place in (3, 4, 5))
    return _convolution(value, weight, stride, padding, dilation)


def _conv_transpose(inputs: Inputs) -> int:
    value, weight = _sizes(inputs, 0), _sizes(inputs, 1)
    return _transposed(value if len(value) == len(weight) else (1, *value), weight)


def _attention(query: Sizes, key: Sizes, value: Sizes) -> int:
    *batch, rows, inner = query
    columns = key[-2]
    return 2 * prod(batch) * rows * columns * (inner + value[-1])


def _sdpa(inputs: Inputs) -> int:
    return _attention(_sizes(inputs, 0), _sizes(inputs, 1), _sizes(inputs, 2))


def _sdpa_backward(inputs: Inputs) -> int:
    """Five products where forward has two: the scores again, and the gradients of all four factors."""
    query, key, value = (_sizes(inputs, place) for place in (1, 2, 3))
    *batch, rows, inner = query
    return 2 * prod(batch) * rows * key[-2] * (3 * inner + 2 * value[-1])


FORMULAS: dict[str, Callable[[Inputs], int]] = {
    "aten::mm": _mm,
    "aten::addmm": lambda inputs: _mm(inputs, 1),
    "aten::bmm": _bmm,
    "aten::baddbmm": lambda inputs: _bmm(inputs, 1),
    "aten::mul": _elementwise,
    "aten::add": _elementwise,
    "aten::conv1d": _conv,
    "aten::conv2d": _conv,
    "aten::conv3d": _conv,
    "aten::conv_transpose1d": _conv_transpose,
    "aten::conv_transpose2d": _conv_transpose,
    "aten::conv_transpose3d": _conv_transpose,
    "aten::linear": _linear,
    "aten::scaled_dot_product_attention": _sdpa,
    "aten::_scaled_dot_product_flash_attention": _sdpa,
    "aten::_scaled_dot_product_efficient_attention": _sdpa,
    "aten::_scaled_dot_product_flash_attention_for_cpu": _sdpa,
    "aten::_scaled_dot_product_cudnn_attention": _sdpa,
    "aten::_scaled_dot_product_flash_attention_backward": _sdpa_backward,
    "aten::_scaled_dot_product_efficient_attention_backward": _sdpa_backward,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _sdpa_backward,
    "aten::_scaled_dot_product_cudnn_attention_backward": _sdpa_backward,
}

# Ops that may be made of others with a formula; then those are counted.
_COMPOSITES = frozenset({"aten::linear", "aten::scaled_dot_product_attention"})
_ELEMENTWISE = frozenset({"aten::mul", "aten::add"})
# What the shapes alone do not tell: strides and paddings are values.
_BY_VALUES = frozenset(name for name in FORMULAS if name.startswith("aten::conv"))


def flops_by_row(recording: Recording) -> dict[int, int]:
    """Operations of each op that has a formula and recorded inputs; nothing is counted twice."""
    names = {
        name_id: recording.name(name_id)
        for name_id in range(recording.name_count)
        if recording.name(name_id) in FORMULAS
    }
    events = recording.events
    has_formula = np.isin(events.name, list(names)) & (events.kind == EventKind.OP)
    rows = np.flatnonzero(has_formula)
    if not len(rows):
        return {}
    shapes = recording.input_shape_ids()[rows].tolist()
    known: dict[tuple[str, int], int] = {}
    found: dict[int, int] = {}
    name_of: dict[int, str] = {}
    parent = recording.tree().parent
    for row, name_id, shape in zip(rows.tolist(), events.name[rows].tolist(), shapes, strict=True):
        name = names[name_id]
        key = (name, shape)
        flops = known.get(key)
        if flops is None:
            flops = flops_of(name, recording.inputs(row) or ())
            if name not in _BY_VALUES:
                known[key] = flops
        if flops and _counts(name, row, parent, found, name_of):
            found[row], name_of[row] = flops, name
    return found


def time_with_formula(recording: Recording, flops: Iterable[int]) -> npt.NDArray[np.bool_]:
    """By row, whether its time is that of an op whose operations are counted, or of what that op called.

    Args:
        flops: the rows that `flops_by_row` found.
    """
    parent = recording.tree().parent
    is_covered = np.zeros(len(parent), dtype=bool)
    is_covered[list(flops)] = True
    inner = np.flatnonzero(parent >= 0)
    while True:
        reached = inner[is_covered[parent[inner]] & ~is_covered[inner]]
        if not len(reached):
            return is_covered
        is_covered[reached] = True


def _counts(name: str, row: int, parent: Any, found: dict[int, int], name_of: dict[int, str]) -> bool:
    """Whether no op around it has counted this work; a composite around it leaves it to this one."""
    above = int(parent[row])
    while above >= 0:
        other = name_of.get(above)
        if other in _COMPOSITES:
            found.pop(above, None)
        elif other == name or (other is not None and name not in _ELEMENTWISE):
            return False
        above = int(parent[above])
    return True
