"""Memory layouts that nobody needs."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import View, tensors_of
from otel_torchprof.recording import InputList, InputValue, TensorInput

_TRANSPOSES = ("aten::t", "aten::mT", "aten::transpose", "aten::permute")
_PRODUCTS = ("aten::matmul", "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm")
_MIN_ELEMENTS = 4096
_MIN_COPIES = 2


@pattern(
    "contiguous-before-matmul",
    title="A transposed matrix is copied before a product",
    needs=(Need.SHAPES,),
    why="Products read transposed matrices as they are: the copy is written and read for nothing.",
    found="`t`, `mT`, or a `transpose` or `permute` that swaps the last two dimensions, then `contiguous` "
    f"that copies at least {_MIN_ELEMENTS:,} elements, then a product that takes a matrix of these sizes; "
    f"at least {_MIN_COPIES} times.",
    advice="Leave .contiguous() out.",
    example="scores = q @ k.transpose(-1, -2)  # not k.transpose(-1, -2).contiguous()",
    limits="Whether something else needs the copy further on is not looked at, hence the lower confidence.",
    url="https://docs.pytorch.org/docs/stable/tensor_view.html",
)
def contiguous_before_matmul(view: View) -> Iterator[Match]:
    transposes = view.ops_named(*_TRANSPOSES)
    transposes = transposes[view.is_outermost_op[transposes] & ~view.in_backward[transposes]]
    transposes = view.where_inputs(transposes, lambda inputs: _transposed(inputs) is not None)
    copies = view.next_op[transposes]
    is_copy = view.is_at(view.named("aten::contiguous") & view.holds(view.named("aten::clone")), copies)
    transposes, copies = transposes[is_copy], copies[is_copy]
    products = view.next_op[copies]
    used = view.is_at(view.named(*_PRODUCTS), products)
    triples = np.stack([transposes[used], copies[used], products[used]], axis=1)
    takes = [
        _transposed(view.inputs(transpose)) in {tensor.sizes for tensor in tensors_of(view.inputs(product))}
        for transpose, _copy, product in triples.tolist()
    ]
    rows = triples[np.array(takes, dtype=bool), 1]
    if len(rows) >= _MIN_COPIES:
        cost_ns = np.where(view.device_ns[rows] > 0, view.device_ns[rows], view.duration_ns[rows])
        detail = f"{len(rows)} copies of transposed matrices"
        yield Match(rows, Level.MEDIUM, detail, cost_ns=cost_ns, saving=(0.5, 1.0))


def _transposed(inputs: list[InputValue]) -> tuple[int, ...] | None:
    """The sizes after the last two dimensions were swapped; None where that is not what is done, or small."""
    if not inputs or not isinstance(inputs[0], TensorInput) or len(inputs[0].sizes) < 2:
        return None
    sizes = inputs[0].sizes
    last = len(sizes) - 1
    dimensions = [*inputs[1].items] if len(inputs) > 1 and isinstance(inputs[1], InputList) else inputs[1:3]
    if not all(isinstance(dimension, int) for dimension in dimensions):
        return None
    order = [dimension % len(sizes) for dimension in dimensions if isinstance(dimension, int)]
    swapped = [*range(last - 1), last, last - 1]
    if prod(sizes) < _MIN_ELEMENTS or order not in ([], [last - 1, last], [last, last - 1], swapped):
        return None
    return tuple(sizes[dimension] for dimension in swapped)
