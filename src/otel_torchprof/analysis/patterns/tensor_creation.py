"""Tensors made in the wrong place, or out of Python objects."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View, tensors_of
from otel_torchprof.recording import EventKind, InputList, InputValue

_FACTORIES = (
    "aten::zeros", "aten::ones", "aten::full", "aten::rand", "aten::randn", "aten::randint", "aten::arange",
    "aten::eye", "aten::linspace", "aten::fill_", "aten::zero_", "aten::normal_", "aten::uniform_",
)  # fmt: skip
_MIN_ELEMENTS = 256
_MIN_CALLS = 2
_MIN_SHARE = 0.01
_MAX_SEARCH = 2  # times as long as converting
_TUNING_GUIDE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"


@pattern(
    "extra-device-copy",
    title="A tensor is filled on the CPU and then copied to the device",
    needs=(Need.DEVICE, Need.SHAPES),
    why="Filling on the device is faster than filling, waiting and copying.",
    found="`to` that copies from host to device, right behind an op that fills a tensor of that size on "
    "the CPU "
    "(`zeros`, `ones`, `randn`, `fill_`, ...).",
    advice="Make the tensor where it is used.",
    example='torch.zeros(100, 100, device="cuda")  # not torch.zeros(100, 100).to("cuda")',
    limits="Tensors made earlier than right before the copy are not seen.",
    url=f"{_TUNING_GUIDE}#create-tensors-directly-on-the-target-device",
    explains=("pageable-copy",),
)
def extra_device_copy(view: View) -> Iterator[Match]:
    copies = view.of_kind(EventKind.MEMCPY) & view.where_name(lambda name: "HtoD" in name)
    callers = view.launched_by(np.flatnonzero(copies))
    launches = np.zeros(len(view), dtype=bool)
    launches[callers[callers != NONE]] = True
    moves = view.ops_named("aten::to")
    moves = moves[view.is_outermost_op[moves] & view.holds(launches)[moves]]
    makes = view.previous_op[moves]
    filled = view.is_at(view.named(*_FACTORIES), makes) & ~view.is_at(view.uses_device, makes)
    pairs = np.stack([makes[filled], moves[filled]], axis=1)
    same = [
        _made_sizes(view.inputs(make)) == _moved_sizes(view.inputs(move)) for make, move in pairs.tolist()
    ]
    pairs = pairs[np.array(same, dtype=bool)]
    cost_ns = view.duration_ns[pairs].sum(axis=1)
    detail = "filled on the CPU, then copied"
    yield Match(pairs[:, 1], Level.HIGH, detail, cost_ns=cost_ns, saving=(0.5, 1.0))


def _made_sizes(inputs: list[InputValue]) -> tuple[object, ...] | None:
    if inputs and isinstance(inputs[0], InputList):
        return inputs[0].items
    return _moved_sizes(inputs)


def _moved_sizes(inputs: list[InputValue]) -> tuple[object, ...] | None:
    tensors = tensors_of(inputs)
    return tensors[0].sizes if tensors else None


@pattern(
    "tensor-from-list",
    title="Tensors are built from Python lists again and again",
    needs=(Need.SHAPES,),
    why="Each number of the list is taken out of its Python object by itself.",
    found=f"At least {_MIN_CALLS} calls of `torch.tensor` of at least {_MIN_ELEMENTS} elements that "
    "together take "
    f"{_MIN_SHARE:.0%} of the time: the ops `empty`, `to`, `lift_fresh` and `detach_` in a row.",
    advice="Keep the data in tensors or arrays from the start, and convert it once.",
    example="data = torch.from_numpy(array)  # once, before the loop",
    limits="Lists of arrays and of tensors look the same as lists of numbers.",
    url="https://docs.pytorch.org/docs/stable/generated/torch.tensor.html",
)
def tensor_from_list(view: View) -> Iterator[Match]:
    lifts = view.where_inputs(view.ops_named("aten::lift_fresh"), _is_large)
    moves = view.previous_op[lifts]
    makes = np.where(moves == NONE, NONE, view.previous_op[moves])
    ends = view.next_op[lifts]
    is_list = view.is_at(view.named("aten::to"), moves) & view.is_at(view.named("aten::empty"), makes)
    is_list &= view.is_at(view.named("aten::detach_"), ends)
    rows, first, last = lifts[is_list], makes[is_list], ends[is_list]
    ops_ns = view.events.end_ns[last] - view.events.start_ns[first]
    # The type and sizes are looked for in the list before the first op: the call itself knows of that. Where
    # calls were not recorded it is the time since the op before, or a part of that.
    calls = view.of_kind(EventKind.PYTHON_C) & view.where_name(lambda name: name.split(".")[-1] == "tensor")
    call = view.around(calls)[rows]
    search_ns = np.minimum(view.since_previous_op_ns(first), _MAX_SEARCH * ops_ns)
    cost_ns: Numbers = np.where(call != NONE, view.duration_ns[call], ops_ns + search_ns)
    if len(rows) >= _MIN_CALLS and cost_ns.sum() >= _MIN_SHARE * view.window_ns:
        detail = f"{len(rows)} tensors out of Python lists"
        yield Match(rows, Level.HIGH, detail, cost_ns=cost_ns, saving=(0.6, 1.0))


def _is_large(inputs: list[InputValue]) -> bool:
    tensors = tensors_of(inputs)
    return bool(tensors) and int(np.prod(tensors[0].sizes, dtype=np.int64)) >= _MIN_ELEMENTS
