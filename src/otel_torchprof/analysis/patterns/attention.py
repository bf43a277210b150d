"""Attention that is computed step by step."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, Sizes, View, tensors_of

_PRODUCTS = ("aten::matmul", "aten::bmm", "aten::baddbmm", "aten::einsum")
_BEFORE = (
    "aten::div", "aten::div_", "aten::mul", "aten::mul_", "aten::add", "aten::add_", "aten::masked_fill",
    "aten::masked_fill_", "aten::where", "aten::sub", "aten::view", "aten::to", "aten::float", "aten::eq",
    "aten::lift_fresh", "aten::slice", "aten::unsqueeze", "aten::scalar_tensor",
)  # fmt: skip
_AFTER = (
    "aten::dropout",
    "aten::native_dropout",
    "aten::to",
    "aten::type_as",
    "aten::view",
    "aten::transpose",
)
_MAX_BETWEEN = 8
_MIN_SCORES = 16 * 16


@pattern(
    "unfused-attention",
    title="Attention is computed in separate ops",
    needs=(Need.SHAPES,),
    why="The matrix of scores, as large as the square of the length, is written and read several times, "
    "and kept for the backward pass.",
    found="A matrix product, `softmax` over its result, and a product with that result, with nothing but "
    "scaling, masking and dropout between them.",
    advice="Call scaled_dot_product_attention, which takes the fastest kernel there is.",
    example="torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)",
    limits="Who needs the weights of the attention themselves cannot use it: nn.MultiheadAttention "
    "computes them unless called with need_weights=False.",
    url="https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
)
def unfused_attention(view: View) -> Iterator[Match]:
    fused = view.where_name(lambda name: "scaled_dot_product" in name)
    softmaxes = view.ops_named("aten::softmax")
    softmaxes = softmaxes[~(view.inside(fused) | view.in_backward)[softmaxes]]
    time_ns = np.where(view.device_ns > 0, view.device_ns, view.duration_ns)
    before, between_ns = _walk(view, softmaxes, view.previous_op, _BEFORE, time_ns)
    after, further_ns = _walk(view, softmaxes, view.next_op, _AFTER, time_ns)
    between_ns = between_ns + further_ns
    is_chosen = (before != NONE) & (after != NONE)
    for place in np.flatnonzero(is_chosen).tolist():
        is_chosen[place] = _is_attention(view, int(before[place]), int(softmaxes[place]), int(after[place]))
    rows = softmaxes[is_chosen]
    cost_ns = between_ns[is_chosen]
    for ops in (before, softmaxes, after):
        cost_ns = cost_ns + time_ns[ops[is_chosen]]
    detail = f"{len(rows)} times product, softmax, product"
    yield Match(rows, Level.HIGH, detail, cost_ns=cost_ns, saving=(0.1, 0.8))


def _walk(
    view: View, rows: Numbers, neighbour: Numbers, passing: tuple[str, ...], time_ns: Numbers
) -> tuple[Numbers, Numbers]:
    """The first product that is reached from each of `rows` past ops that may lie between.

    Returns:
        The products, `NONE` where there is none, and the time of the ops that lie between.
    """
    is_product, may_pass = view.named(*_PRODUCTS), view.named(*passing)
    at = neighbour[rows]
    passed_ns = np.zeros(len(rows), dtype=np.int64)
    for _ in range(_MAX_BETWEEN):
        passes = view.is_at(may_pass, at)
        passed_ns[passes] += time_ns[at[passes]]
        at = np.where(passes, neighbour[at], at)
    return np.where(view.is_at(is_product, at), at, NONE), passed_ns


def _is_attention(view: View, first: int, softmax: int, second: int) -> bool:
    scores = _sizes(view, softmax)[0]
    weights = _sizes(view, second)[0]
    if len(scores) < 2 or scores[-1] * scores[-2] < _MIN_SCORES or weights[-2:] != scores[-2:]:
        return False
    factors = _sizes(view, first)[-2:]
    return len(factors) == 2 and (factors[0][-2:-1], factors[1][-1:]) == (scores[-2:-1], scores[-1:])


def _sizes(view: View, row: int) -> list[Sizes]:
    return [tensor.sizes for tensor in tensors_of(view.inputs(row))] or [()]
