"""Models that are evaluated as if they were trained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, Mask, View
from otel_torchprof.recording import EventFlags, EventKind

_MIN_CALLS = 2
_INFERENCE_MODE = (
    "https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation"
)


def _outermost_modules(view: View, mode: EventFlags) -> Numbers:
    """Calls of modules in a mode that no other module and no backward pass encloses."""
    is_module = view.of_kind(EventKind.MODULE)
    in_mode = view.events.flags & mode != 0
    return np.flatnonzero(is_module & in_mode & ~view.inside(is_module) & ~view.in_backward)


def _numbers_inside(view: View, rows: Numbers) -> tuple[Numbers, Numbers]:
    """The least and the greatest of autograd's numbers that ops in each of these have; -1 = none has "
    "any."""
    is_row = np.zeros(len(view), dtype=bool)
    is_row[rows] = True
    around = view.around(is_row)
    sequence = view.events.sequence
    numbered = np.flatnonzero((sequence >= 0) & (around != NONE) & view.is_op)
    least = np.full(len(view), np.iinfo(np.int64).max, dtype=np.int64)
    greatest = np.full(len(view), -1, dtype=np.int64)
    np.minimum.at(least, around[numbered], sequence[numbered])
    np.maximum.at(greatest, around[numbered], sequence[numbered])
    return np.where(greatest[rows] < 0, -1, least[rows]), greatest[rows]


@pattern(
    "graph-without-backward",
    title="Evaluation records a graph that no backward pass uses",
    needs=(Need.MODULES,),
    why="Activations are kept for a backward pass that never comes, and autograd costs time with each op.",
    found=f"At least {_MIN_CALLS} outermost calls of a module in evaluation mode in which nodes of "
    "autograd's graph "
    "were made, while no call of that module was followed by a backward pass through it.",
    advice="Evaluate under torch.inference_mode() or torch.no_grad().",
    example="model.eval()\nwith torch.inference_mode():\n    outputs = model(inputs)",
    limits="A backward pass after the end of the recording is not seen.",
    url=_INFERENCE_MODE,
)
def graph_without_backward(view: View) -> Iterator[Match]:
    rows = _outermost_modules(view, EventFlags.EVALUATION)
    least, greatest = _numbers_inside(view, rows)
    made_nodes = greatest > least
    _backward, forward = (rows.astype(np.int64) for rows in view.recording.links.forward_backward_links())
    followed = np.zeros(len(view), dtype=bool)
    followed[forward] = True
    trained = view.events.name[rows[view.holds(followed)[rows]]]
    rows = rows[made_nodes & ~np.isin(view.events.name[rows], trained)]
    for name in np.unique(view.events.name[rows]).tolist():
        calls = rows[view.events.name[rows] == name]
        if len(calls) >= _MIN_CALLS:
            detail = f"{len(calls)} forward passes with a graph"
            yield Match(calls, Level.HIGH, detail, saving=(0.02, 0.3))


@pattern(
    "training-mode-without-gradients",
    title="Evaluation runs dropout or batch norm in training mode",
    needs=(Need.MODULES,),
    why="Dropout makes outputs random, and batch norm changes its running statistics: results are wrong.",
    found="Outermost calls of a module in training mode without gradients, in which dropout drew random "
    "numbers or "
    "a batch norm is in training mode, and which no call in the backward pass repeats.",
    advice="Switch the model to evaluation mode, and back before training goes on.",
    example="model.eval()\nwith torch.inference_mode():\n    outputs = model(inputs)\nmodel.train()",
    limits="Some do it on purpose: Monte Carlo dropout, and measuring the statistics of a batch norm anew.",
    url="https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval",
)
def training_mode_without_gradients(view: View) -> Iterator[Match]:
    rows = _outermost_modules(view, EventFlags.TRAINING)
    _least, greatest = _numbers_inside(view, rows)
    rows = rows[(greatest < 0) & view.holds(view.is_op)[rows] & view.holds(_matters_in_training(view))[rows]]
    # Activations that are computed again instead of kept: first without gradients, in the backward with them.
    again = view.of_kind(EventKind.MODULE) & view.in_backward
    rows = rows[~np.isin(view.events.name[rows], view.events.name[again])]
    detail = f"{len(rows)} forward passes without gradients in training mode"
    yield Match(rows, Level.MEDIUM, detail, saving=(0.0, 0.1), severity=Level.MEDIUM)


def _matters_in_training(view: View) -> Mask:
    drops = view.inside(view.named("aten::dropout") & view.is_op)
    draws = view.named("aten::bernoulli_", "aten::native_dropout") & view.is_op & drops
    norms = view.where_name(lambda name: name.removeprefix("nn.Module: ").startswith("BatchNorm"))
    training = view.events.flags & EventFlags.TRAINING != 0
    matters: Mask = draws | (norms & training & view.of_kind(EventKind.MODULE))
    return matters
