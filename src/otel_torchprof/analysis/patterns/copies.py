"""Copies that need not be made, or need not be waited for."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, Sizes, View, tensors_of
from otel_torchprof.recording import EventKind, InputList, InputValue, TensorInput

_MIN_STEPS = 2
_MIN_COPIES = 8  # where there are no steps
_MIN_BYTES = 1 << 20
_MIN_CONVERSIONS = 3
_MIN_REPEATED_ELEMENTS = 4096
_ELEMENTWISE = tuple(
    f"aten::{name}{suffix}"
    for name in ("add", "sub", "mul", "div", "maximum", "minimum", "pow", "where", "eq", "lt", "gt")
    for suffix in ("", "_")
)


@pattern(
    "pageable-copy",
    title="Tensors are copied between host and device through pageable memory",
    needs=(Need.DEVICE,),
    why="The driver copies them to memory of its own first, at a part of the speed, and the program "
    "waits meanwhile.",
    found=f"Copies from or to `Pageable` memory of at least {_MIN_BYTES >> 20} MiB in at least "
    f"{_MIN_STEPS} steps, or "
    f"{_MIN_COPIES} of them where there are no steps.",
    advice="Pin the memory of batches, and copy without waiting.",
    example='loader = DataLoader(dataset, pin_memory=True)\nx = x.to("cuda", non_blocking=True)',
    limits="Copying the model itself before the first step does not count.",
    url="https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html",
)
def pageable_copy(view: View) -> Iterator[Match]:
    copies = view.of_kind(EventKind.MEMCPY) & view.where_name(lambda name: "Pageable" in name)
    records = view.recording.devices
    size_bytes = np.zeros(len(view), dtype=np.int64)
    size_bytes[records["event"].astype(np.int64)] = records["size_bytes"]
    work = np.flatnonzero(copies & (size_bytes >= _MIN_BYTES))
    ops = view.launched_by(work)
    work, ops = work[ops != NONE], ops[ops != NONE]
    if view.steps:
        in_steps = view.step[ops] != NONE
        work, ops = work[in_steps], ops[in_steps]
        enough = view.steps_with(ops) >= _MIN_STEPS
    else:
        enough = len(work) >= _MIN_COPIES
    if enough:
        rows = np.unique(ops)
        moved = np.zeros(len(view), dtype=np.int64)
        np.add.at(moved, ops, size_bytes[work])
        detail = f"{len(work)} copies of {int(size_bytes[work].sum()) >> 20} MiB together"
        yield Match(rows, Level.HIGH, detail, cost_bytes=moved[rows], saving=(0.3, 0.95))


@pattern(
    "repeated-conversion",
    title="The same tensor is converted again and again",
    needs=(Need.TENSORS,),
    why="Each conversion reads and writes the whole tensor to make what was there already.",
    found=f"At least {_MIN_CONVERSIONS} times `to` that makes a copy of one tensor, whose memory was "
    "neither written "
    "nor allocated anew in between.",
    advice="Convert it once, and keep the result.",
    example='mask = mask.to("cuda")  # before the loop',
    limits="Writing through another view of the memory by code that is not PyTorch's is not seen.",
    url="https://docs.pytorch.org/docs/stable/generated/torch.Tensor.to.html",
)
def repeated_conversion(view: View) -> Iterator[Match]:
    copies = view.ops_named("aten::_to_copy")
    copies = copies[view.is_at(view.named("aten::to") & view.is_outermost_op, view.op_around[copies])]
    tensors = view.recording.tensors
    sources = tensors[np.isin(tensors["event"], copies) & (tensors["argument"] == 0) & (tensors["item"] < 0)]
    sources = sources[(sources["address"] != 0) & (sources["version"] >= 0)]
    by_tensor: dict[tuple[object, ...], list[int]] = {}
    for source in sources:
        row = int(source["event"])
        identity = tuple(int(source[field]) for field in ("address", "storage_offset", "elements", "version"))
        allocation = len(view.allocations_before(int(source["address"]), int(view.events.start_ns[row])))
        target = tuple(value for value in view.inputs(row)[1:] if not isinstance(value, TensorInput))
        by_tensor.setdefault((*identity, allocation, str(target)), []).append(row)
    rows = [row for same in by_tensor.values() if len(same) >= _MIN_CONVERSIONS for row in same[1:]]
    moves = np.unique(view.op_around[np.array(sorted(rows), dtype=np.int64)])
    yield Match(
        moves, Level.HIGH, f"{len(moves)} conversions of what was converted before", saving=(0.8, 1.0)
    )


@pattern(
    "materialized-broadcast",
    title="A small tensor is repeated where broadcasting would do",
    needs=(Need.SHAPES,),
    why="The repeated tensor is written to memory and read again, and in training kept for the backward "
    "pass.",
    found="`repeat`, or `expand` and `contiguous`, whose result of at least "
    f"{_MIN_REPEATED_ELEMENTS:,} elements the next elementwise op takes, while the small tensor "
    "broadcasts to it.",
    advice="Leave the repeating out: elementwise ops broadcast.",
    example="x + bias  # not x + bias.repeat(len(x), 1)",
    limits="Only the op right behind is looked at. That it is given the very result follows from its size.",
    url="https://docs.pytorch.org/docs/stable/notes/broadcasting.html",
)
def materialized_broadcast(view: View) -> Iterator[Match]:
    repeats = view.where_inputs(view.ops_named("aten::repeat"), _repeated)
    expands = view.where_inputs(view.ops_named("aten::expand"), _expanded)
    copies = view.next_op[expands]
    writes = view.is_at(view.named("aten::contiguous", "aten::clone") & view.holds(view.is_op), copies)
    rows = np.concatenate([repeats, expands[writes]])
    last = np.concatenate([repeats, copies[writes]])
    users = view.next_op[last]
    used = view.is_at(view.named(*_ELEMENTWISE) & ~view.in_backward, users)
    rows, last, users = rows[used], last[used], users[used]
    takes = [
        _broadcast_result(view.inputs(row)) in {tensor.sizes for tensor in tensors_of(view.inputs(user))}
        and len(tensors_of(view.inputs(user))) > 1
        for row, user in zip(rows.tolist(), users.tolist(), strict=True)
    ]
    chosen = np.array(takes, dtype=bool)
    order = np.argsort(last[chosen])
    last, users = last[chosen][order], users[chosen][order]
    took_ns = np.where(view.device_ns > 0, view.device_ns, view.duration_ns)
    # The op behind reads what was repeated: of about four passes over memory two are left, and of two blocks
    # that are allocated one.
    cost_ns = took_ns[last] + took_ns[users]
    yield Match(last, Level.HIGH, "repeated, then used elementwise", cost_ns=cost_ns, saving=(0.3, 0.9))


def _broadcast_result(inputs: list[InputValue]) -> Sizes | None:
    return _repeated(inputs) or _expanded(inputs)


def _repeated(inputs: list[InputValue]) -> Sizes | None:
    """The sizes of what `repeat` makes, if broadcasting makes the same of it."""
    found = _tensor_and_list(inputs)
    if found is None or len(found[0]) > len(found[1]):
        return None
    sizes, times = found
    padded = (1,) * (len(times) - len(sizes)) + sizes
    if any(count > 1 and size != 1 for size, count in zip(padded, times, strict=True)):
        return None
    return _large(tuple(size * count for size, count in zip(padded, times, strict=True)), sizes)


def _expanded(inputs: list[InputValue]) -> Sizes | None:
    found = _tensor_and_list(inputs)
    if found is None or len(found[0]) > len(found[1]):
        return None
    sizes, wanted = found
    padded = (1,) * (len(wanted) - len(sizes)) + sizes
    made = tuple(size if want == -1 else want for size, want in zip(padded, wanted, strict=True))
    return _large(made, sizes)


def _large(made: Sizes, sizes: Sizes) -> Sizes | None:
    return made if prod(made) >= _MIN_REPEATED_ELEMENTS and prod(made) > prod(sizes) else None


def _tensor_and_list(inputs: list[InputValue]) -> tuple[Sizes, Sizes] | None:
    if len(inputs) < 2 or not isinstance(inputs[0], TensorInput) or not isinstance(inputs[1], InputList):
        return None
    items = inputs[1].items
    if inputs[1].is_cut or not all(isinstance(item, int) for item in items):
        return None
    return inputs[0].sizes, tuple(item for item in items if isinstance(item, int))
