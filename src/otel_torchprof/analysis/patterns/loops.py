"""Loops in Python over what one op does."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View
from otel_torchprof.recording import InputList, InputValue, TensorInput

_MIN_REPEATS, _SURE_REPEATS = 10, 32
_MAX_BODY = 6  # ops of one iteration
_LAGS = (1, 2, 3)  # selects of one iteration
# Work that a loop over rows may rightly be for: recurrent cells, experts, layers.
_HEAVY = ("mm", "conv", "linear", "matmul", "lstm", "gru", "rnn", "attention", "norm", "embedding", "einsum")


@pattern(
    "for-loop-indexing",
    title="A loop goes through a tensor one element at a time",
    why="Each iteration costs several ops and Python's own time, where one op on the whole tensor does "
    "it all.",
    found=f"At least {_MIN_REPEATS} times in a row the same few ops, beginning with `select` "
    "(`tensor[i]`), "
    f"none of them a product, convolution, norm or recurrent cell; sure from {_SURE_REPEATS} on.",
    advice="Write it as one operation on the whole tensor.",
    example="table[:] = torch.arange(100).unsqueeze(1)  # not: for i in range(100): table[i] = i",
    limits="Loops whose iterations depend on each other look the same. Fetching samples in a DataLoader "
    "does "
    "not count.",
    url="https://docs.pytorch.org/docs/stable/notes/broadcasting.html",
)
def for_loop_indexing(view: View) -> Iterator[Match]:
    rows, group = view.op_sequences
    is_select = view.named("aten::select")[rows]
    # What an op runs within itself is no loop of the program.
    wanted = (view.is_outermost_op & ~view.in_data_loader & ~view.in_backward)[rows]
    place = np.flatnonzero(is_select)
    if len(place) < _MIN_REPEATS:
        return
    # What each iteration runs, as one number: the sum of its ops' mixed numbers.
    mixed = view.text_id[rows].astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mixed ^ (mixed >> np.uint64(29)))])
    heavy = view.where_name(lambda name: any(word in name for word in _HEAVY))[rows]
    heavy_sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(heavy)])
    begin, end = place[:-1], place[1:]
    length = end - begin
    sound = (group[begin] == group[end]) & (length <= _MAX_BODY) & wanted[begin]
    step = view.step[rows]
    sound &= step[begin] == step[end]
    sound &= heavy_sums[end] == heavy_sums[begin]
    body = sums[end] - sums[begin]
    in_run = np.zeros(len(begin), dtype=np.int64)
    for lag in _LAGS:
        again = np.zeros(len(begin), dtype=bool)
        again[lag:] = sound[lag:] & sound[:-lag] & (body[lag:] == body[:-lag])
        again[lag:] &= group[begin[lag:]] == group[begin[:-lag]]
        for first, last in _runs(again):
            repeats = (last - first) // lag + 1
            if repeats >= _MIN_REPEATS:
                in_run[first - lag : last] = np.maximum(in_run[first - lag : last], repeats)
    if not in_run.any():
        return
    start_ns = view.events.start_ns[rows]
    span_ns = start_ns[end] - start_ns[begin]
    for least, most, confidence in (
        (_MIN_REPEATS, _SURE_REPEATS, Level.MEDIUM),
        (_SURE_REPEATS, len(rows) + 1, Level.HIGH),
    ):
        chosen = np.flatnonzero((in_run >= least) & (in_run < most))
        if len(chosen):
            detail = f"the same ops up to {int(in_run[chosen].max())} times in a row"
            order = np.argsort(rows[begin[chosen]])
            chosen = chosen[order]
            yield Match(rows[begin[chosen]], confidence, detail, span_ns[chosen], saving=(0.5, 0.98))


def _runs(mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Iterator[tuple[int, int]]:
    """Where True begins and ends."""
    padded = np.concatenate([[False], mask, [False]]).astype(np.int8)
    change = np.flatnonzero(np.diff(padded))
    yield from zip(change[::2].tolist(), change[1::2].tolist(), strict=True)


@pattern(
    "growing-cat",
    title="A tensor grows by cat in a loop",
    needs=(Need.SHAPES,),
    why="Each `cat` copies all that is there already, so that the work grows with the square of the length.",
    found=f"At least {_MIN_REPEATS} calls of `cat`, each of which appends as much to what the one before "
    "it made, "
    f"without a convolution between them; sure from {_SURE_REPEATS} on.",
    advice="Collect the parts in a list and cat once, or write into a tensor allocated ahead.",
    example="parts.append(y)  # in the loop\nresult = torch.cat(parts)  # behind it",
    limits="Sizes are compared, not tensors: caches of several layers that grow together count as one.",
    url="https://docs.pytorch.org/docs/stable/generated/torch.cat.html",
)
def growing_cat(view: View) -> Iterator[Match]:
    calls = view.ops_named("aten::cat")
    calls = calls[view.is_outermost_op[calls] & ~view.in_data_loader[calls]]
    convolutions = np.cumsum(view.where_name(lambda name: name.startswith("aten::conv")) & view.is_op)
    appended_by_shape = {
        int(view.shape_id[row]): _appended(view.inputs(row))
        for row in calls[np.unique(view.shape_id[calls], return_index=True)[1]].tolist()
    }
    made: dict[tuple[object, ...], tuple[int, int, int]] = {}  # what was made -> row, length, appended
    before: dict[int, int] = {}
    length: dict[int, int] = {}
    for row, shape in zip(calls.tolist(), view.shape_id[calls].tolist(), strict=True):
        found = appended_by_shape.get(shape)
        if found is None:
            continue
        first, whole, appended = found
        track = int(view.events.track[row])
        last, so_far, last_appended = made.get((track, first), (NONE, 0, 0))
        chained = last != NONE and last_appended == appended and convolutions[last] == convolutions[row]
        length[row] = so_far + 1 if chained else 1
        if chained:
            before[row] = last
        made[track, whole] = (row, length[row], appended)
    yield from _growths(view, length, before)


def _growths(view: View, length: dict[int, int], before: dict[int, int]) -> Iterator[Match]:
    rows_by_confidence: dict[Level, set[int]] = {Level.MEDIUM: set(), Level.HIGH: set()}
    known: set[int] = set()
    for row in sorted((row for row in length if length[row] >= _MIN_REPEATS), key=lambda row: -length[row]):
        confidence = Level.HIGH if length[row] >= _SURE_REPEATS else Level.MEDIUM
        at: int | None = row
        while at is not None and at not in known:
            rows_by_confidence[confidence].add(at)
            known.add(at)
            at = before.get(at)
    longest = max(length.values(), default=0)
    for confidence, chosen in rows_by_confidence.items():
        rows: Numbers = np.array(sorted(chosen), dtype=np.int64)
        op_ns = view.duration_ns[rows]
        # Python's own time for the call, and what freeing the shorter tensor behind it takes.
        following = view.next_op[rows]
        behind_ns = np.where(following == NONE, 0, view.since_previous_op_ns(following))
        host_ns = op_ns + np.minimum(view.since_previous_op_ns(rows) + behind_ns, op_ns)
        cost_ns = np.where(view.device_ns[rows] > 0, view.device_ns[rows], host_ns)
        yield Match(rows, confidence, f"grew {longest} times", cost_ns=cost_ns, saving=(0.2, 1.0))


def _appended(inputs: list[InputValue]) -> tuple[object, object, int] | None:
    """Of a cat of two tensors: the shape of the first, that of the result, how much it grew."""
    if len(inputs) < 2 or not isinstance(inputs[0], InputList) or not isinstance(inputs[1], int):
        return None
    tensors = [item for item in inputs[0].items if isinstance(item, TensorInput)]
    if len(tensors) != 2 or inputs[0].is_cut or not tensors[0].sizes:
        return None
    first, second = tensors[0].sizes, tensors[1].sizes
    dim = inputs[1] % len(first)
    if len(second) != len(first) or not second[dim] or first[dim] < second[dim]:
        return None
    whole = (*first[:dim], first[dim] + second[dim], *first[dim + 1 :])
    return (dim, first), (dim, whole), second[dim]
