"""What optimizers are made to do one parameter at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View

_MIN_OPS = 30  # fewer are not worth a call for all of them
_MIN_NORMS_PER_STEP = 8
_MIN_OPTIMIZER_SHARE = 0.05
_ZERO_GRAD = "https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html"
_OPTIMIZERS = "https://docs.pytorch.org/docs/stable/optim.html"
_FUSED_ADAPTIVE = re.compile(r"^Optimizer\.step#(?:Adam|AdamW|Adagrad)\.step$")
_FUSED_SGD = "Optimizer.step#SGD.step"


@pattern(
    "gradients-zeroed",
    title="Gradients are filled with zeros instead of dropped",
    why="Each gradient is written once for nothing, and the backward pass then reads it to add to it.",
    found="`zero_` or `_foreach_zero_` within a call of an optimizer's `zero_grad`.",
    advice="Let zero_grad() set gradients to None, which has been its default since PyTorch 2.0.",
    example="optimizer.zero_grad()  # not zero_grad(set_to_none=False)",
    limits="Programs that need the memory of gradients to stay where it is, as CUDA graphs do, want zeros. "
    "`Module.zero_grad` is not a scope of torch and is not seen.",
    url=_ZERO_GRAD,
)
def gradients_zeroed(view: View) -> Iterator[Match]:
    scope = view.where_name(lambda name: name.startswith("Optimizer.zero_grad#"))
    zeros = view.ops_named("aten::zero_", "aten::_foreach_zero_")
    zeros = zeros[view.op_around[zeros] == NONE]
    around = view.around(scope)[zeros]
    inside = around != NONE
    cost_ns = np.zeros(len(view), dtype=np.int64)
    np.add.at(cost_ns, around[inside], (view.duration_ns + view.device_ns)[zeros[inside]])
    rows = np.unique(around[inside])
    detail = f"{int(inside.sum())} fills with zeros in {len(rows)} calls of zero_grad"
    yield Match(rows, Level.HIGH, detail, cost_ns=cost_ns[rows], saving=(0.5, 1.0))


def _ops_directly_in(view: View, rows: Numbers) -> Numbers:
    """How many ops each of these ran that no other op encloses."""
    is_row = np.zeros(len(view), dtype=bool)
    is_row[rows] = True
    around = view.around(is_row)[view.is_outermost_op]
    return np.bincount(around[around != NONE], minlength=len(view))[rows]


def _steps_of_optimizers(view: View) -> tuple[Numbers, Numbers]:
    """Rows of steps of optimizers: of many single ops, of ops on lists of tensors. None of them is "
    "fused."""
    rows = np.flatnonzero(view.where_name(lambda name: name.startswith("Optimizer.step#")))
    fused = view.holds(view.where_name(lambda name: name.startswith("aten::_fused_")))
    foreach = view.holds(view.where_name(lambda name: name.startswith("aten::_foreach_")))
    rows = rows[~fused[rows]]
    many = rows[_ops_directly_in(view, rows) >= _MIN_OPS]
    return many[~foreach[many]], rows[foreach[rows]]


@pattern(
    "single-tensor-optimizer",
    title="The optimizer updates one parameter at a time on a device",
    needs=(Need.DEVICE,),
    why="Each parameter costs several launches of small kernels, where one for all of them does the same.",
    found=f"A step of an optimizer with at least {_MIN_OPS} ops, some of which use a device, and none of "
    "which is a `_foreach_` or `_fused_` one.",
    advice="Use the implementation for many tensors: foreach=True, or fused=True where there is one.",
    example="torch.optim.AdamW(model.parameters(), fused=True)",
    limits="On the CPU foreach saves nothing, so that nothing is said there. Needs more memory at its peak.",
    url=_OPTIMIZERS,
)
def single_tensor_optimizer(view: View) -> Iterator[Match]:
    single, _foreach = _steps_of_optimizers(view)
    rows = single[view.uses_device[single]]
    ops = int(_ops_directly_in(view, rows).mean()) if len(rows) else 0
    yield Match(rows, Level.HIGH, f"about {ops} ops in each step of the optimizer", saving=(0.3, 0.9))


@pattern(
    "unfused-optimizer",
    title="An optimizer that could run fused does not",
    why="Reads and writes each parameter and its state several times, once for each operation.",
    found="Steps of Adam, AdamW, Adagrad, or SGD with momentum that run `_foreach_` ops on a device, or at "
    f"least {_MIN_OPS} single ops on the CPU, and take at least {_MIN_OPTIMIZER_SHARE:.0%} of the time.",
    advice="Pass fused=True to the optimizer.",
    example="torch.optim.AdamW(model.parameters(), fused=True)",
    limits="Fused optimizers of the CPU came with PyTorch 2.4 to 2.6. Parameters must be floating-point "
    "tensors of a device that has them. SGD without momentum is one op for each parameter: fused it may even "
    "be slower.",
    url=_OPTIMIZERS,
)
def unfused_optimizer(view: View) -> Iterator[Match]:
    single, foreach = _steps_of_optimizers(view)
    on_cpu = single[~view.uses_device[single]]
    on_device = foreach[view.uses_device[foreach]]
    adaptive = view.where_name(_FUSED_ADAPTIVE.match)
    scales = view.where_name(lambda name: name in ("aten::mul_", "aten::_foreach_mul_"))
    with_momentum = view.named(_FUSED_SGD) & view.holds(scales)
    found = (
        (on_device[(adaptive | with_momentum)[on_device]], (0.1, 0.7)),
        (on_cpu[adaptive[on_cpu]], (0.4, 0.9)),
        (on_cpu[with_momentum[on_cpu]], (0.1, 0.5)),
    )
    took_ns = sum(int(view.duration_ns[rows].sum()) for rows, _saving in found)
    if took_ns >= _MIN_OPTIMIZER_SHARE * view.window_ns:
        for rows, saving in found:
            yield Match(rows, Level.MEDIUM, f"{len(rows)} steps of it ran op by op", saving=saving)


@pattern(
    "per-parameter-norm",
    title="A norm is read back for each parameter",
    why="Each `.item()` waits for the device; and each norm is a kernel of its own.",
    found=f"At least {_MIN_NORMS_PER_STEP} norms in a step, each followed at once by `item`.",
    advice="Compute all norms in one call and read back one number.",
    example="torch.nn.utils.get_total_norm(p.grad for p in model.parameters()).item()",
    limits="Norms that are collected first and read later are not seen.",
    url="https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.get_total_norm.html",
    explains=("synchronizing-read",),
)
def per_parameter_norm(view: View) -> Iterator[Match]:
    norms = view.ops_named("aten::norm", "aten::linalg_vector_norm")
    norms = norms[view.is_outermost_op[norms]]
    reads = view.next_op[norms]
    followed = view.is_at(view.named("aten::item"), reads)
    norms, reads = norms[followed], reads[followed]
    _steps, place, count = np.unique(view.step[norms], return_inverse=True, return_counts=True)
    many = (count >= _MIN_NORMS_PER_STEP)[place.reshape(-1)]
    norms, reads = norms[many], reads[many]
    if len(norms):
        cost_ns = view.duration_ns[norms] + view.duration_ns[reads]
        rows = np.concatenate([norms, reads])
        cost_ns = np.concatenate([cost_ns, np.zeros(len(reads), dtype=np.int64)])
        order = np.argsort(rows)
        detail = f"{len(norms)} norms, each read back by itself"
        yield Match(rows[order], Level.HIGH, detail, cost_ns=cost_ns[order], saving=(0.5, 0.95))
