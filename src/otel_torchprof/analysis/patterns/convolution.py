"""Convolutions that do more than they need to."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View
from otel_torchprof.recording import EventKind, InputValue, TensorInput

_LAYOUT_KERNEL = re.compile(r"nchwToNhwc|nhwcToNchw", re.IGNORECASE)
_MIN_CONVERSIONS = 4
_TUNING_GUIDE = "https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html"
_BIAS = 2  # place among the inputs of a convolution
_WEIGHT = 1


@pattern(
    "conv-bias-before-batch-norm",
    title="A convolution adds a bias that the batch norm behind it takes away",
    needs=(Need.SHAPES,),
    why="The norm subtracts the mean, and the bias with it: it is computed, stored and trained for nothing.",
    found="`conv1d`, `conv2d` or `conv3d` with a bias, followed at once by `batch_norm` of as many channels.",
    advice="Make the convolution without bias.",
    example="nn.Conv2d(64, 128, 3, bias=False)",
    limits="Traces do not tell whether the norm is of the result of that very convolution; that it "
    "follows at "
    "once and has its channels says so.",
    url=f"{_TUNING_GUIDE}#disable-bias-for-convolutions-directly-followed-by-a-batch-norm",
)
def conv_bias_before_batch_norm(view: View) -> Iterator[Match]:
    convolutions = view.ops_named("aten::conv1d", "aten::conv2d", "aten::conv3d")
    convolutions = view.where_inputs(convolutions, _has_bias)
    following = view.next_op[convolutions]
    # A batch norm of a module counts its batches first.
    counts = view.is_at(view.named("aten::add_"), following)
    following = np.where(counts, view.next_op[following], following)
    normed = view.is_at(view.named("aten::batch_norm"), following)
    pairs = np.stack([convolutions[normed], following[normed]], axis=1)
    same = [
        _channels(view.inputs(convolution)) == _channels(view.inputs(norm))
        for convolution, norm in pairs.tolist()
    ]
    rows = pairs[np.array(same, dtype=bool), 0]
    cost_ns = np.where(view.device_ns[rows] > 0, view.device_ns[rows], view.duration_ns[rows])
    yield Match(rows, Level.HIGH, "convolution with a bias, then batch norm", cost_ns, saving=(0.0, 0.05))


def _has_bias(inputs: list[InputValue]) -> bool:
    return len(inputs) > _BIAS and isinstance(inputs[_BIAS], TensorInput) and len(_sizes(inputs, _BIAS)) == 1


def _sizes(inputs: list[InputValue], place: int) -> tuple[int, ...]:
    value = inputs[place] if len(inputs) > place else None
    return value.sizes if isinstance(value, TensorInput) else ()


def _channels(inputs: list[InputValue]) -> int | None:
    """Of a convolution the channels it makes, of a batch norm those it takes."""
    weight = _sizes(inputs, _WEIGHT)
    return weight[0] if weight else None


@pattern(
    "channels-last-mismatch",
    title="Convolutions convert between memory layouts on the device",
    needs=(Need.DEVICE,),
    why="Tensor cores convolve channels-last; of tensors in the other layout each is rewritten first, "
    "and back.",
    found=f"At least {_MIN_CONVERSIONS} kernels of cuDNN named `nchwToNhwc` or `nhwcToNchw`.",
    advice="Keep the model and its input in the layout that the kernels want.",
    example="model = model.to(memory_format=torch.channels_last)\nx = "
    "x.to(memory_format=torch.channels_last)",
    limits="Conversions that cuDNN does inside of other kernels have no kernel of their own.",
    url="https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",
)
def channels_last_mismatch(view: View) -> Iterator[Match]:
    kernels = np.flatnonzero(view.of_kind(EventKind.KERNEL) & view.where_name(_LAYOUT_KERNEL.search))
    if len(kernels) < _MIN_CONVERSIONS:
        return
    ops = view.launched_by(kernels)
    rows, place = np.unique(np.where(ops == NONE, kernels, ops), return_inverse=True)
    cost_ns = np.zeros(len(rows), dtype=np.int64)
    np.add.at(cost_ns, place.reshape(-1), view.duration_ns[kernels])
    detail = f"{len(kernels)} conversions of layout"
    yield Match(rows, Level.HIGH, detail, cost_ns=cost_ns, saving=(0.7, 1.0))
