"""In which operator, and in which phase of training, each event lies.

An operator is the outermost op of the library, or the outermost function of the backward pass: what it calls
in turn is how it does its work, not what the program asked for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import EventKind, Recording

NONE = -1
_BACKWARD_SCOPE = 1  # at::RecordScope::BACKWARD_FUNCTION
OPERATOR_NAME = re.compile(r"\w+::[\w.]+")
_BACKWARD_NAME = "autograd::engine::evaluate_function: "
_OPTIMIZER_NAME = "Optimizer.step#"
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Operators:
    """Columns by event row; rows of events, `NONE` = none."""

    operator: Numbers  # the operator that it is or lies in
    optimizer_step: Numbers  # the step of an optimizer that it is or lies in
    in_backward: npt.NDArray[np.bool_]


def find_operators(recording: Recording) -> Operators:
    """Finds them for all events."""
    events, count = recording.events, len(recording)
    names = [recording.name(name_id) for name_id in range(recording.name_count)]
    has_operator_name = np.array([OPERATOR_NAME.fullmatch(name) is not None for name in names])
    is_evaluation = np.array([name.startswith(_BACKWARD_NAME) for name in names])
    has_optimizer_name = np.array([name.startswith(_OPTIMIZER_NAME) for name in names])
    is_op = events.kind == EventKind.OP
    is_function = is_op & (events.scope == _BACKWARD_SCOPE)
    is_operator = (is_function | (is_op & has_operator_name[events.name])).tolist()
    is_backward = (is_function | is_evaluation[events.name]).tolist()
    is_optimizer = has_optimizer_name[events.name].tolist()

    operator, optimizer, backward = [NONE] * count, [NONE] * count, [False] * count
    for row, parent in enumerate(recording.tree().parent.tolist()):
        if parent >= 0:
            operator[row], optimizer[row] = operator[parent], optimizer[parent]
            backward[row] = backward[parent]
        if operator[row] == NONE and is_operator[row]:
            operator[row] = row
        if optimizer[row] == NONE and is_optimizer[row]:
            optimizer[row] = row
        backward[row] = backward[row] or is_backward[row]
    return Operators(
        np.array(operator, dtype=np.int64),
        np.array(optimizer, dtype=np.int64),
        np.array(backward, dtype=bool),
    )
