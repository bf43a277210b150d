"""What autograd is made to keep or to check."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from otel_torchprof.analysis.patterns.finding import Level, Numbers
from otel_torchprof.analysis.patterns.pattern import Match, Need, pattern
from otel_torchprof.analysis.patterns.view import NONE, View
from otel_torchprof.recording import TensorFlags

_MIN_STEPS = 2
_MIN_CHECKS = 2


@pattern(
    "anomaly-detection-on",
    title="Anomaly detection is on",
    why="Each result of the backward pass is searched for NaN and read back, which waits for the device; "
    "and each "
    "forward op stores its stack.",
    found=f"At least {_MIN_CHECKS} nodes of the backward pass that autograd follows up with `isnan` itself.",
    advice="Turn it off once the fault is found.",
    example="torch.autograd.set_detect_anomaly(False)",
    limits="With check_nan=False only stacks are stored, which leaves no ops.",
    url="https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection",
    explains=("synchronizing-read",),
)
def anomaly_detection_on(view: View) -> Iterator[Match]:
    nodes = view.where_name(lambda name: name.startswith("autograd::engine::evaluate_function: "))
    checks = view.ops_named("aten::isnan")
    checks = checks[view.is_at(nodes, view.op_around[checks])]
    anys = view.next_op[checks]
    followed = view.is_at(view.named("aten::_is_any_true", "aten::any"), anys)
    checks, anys = checks[followed], anys[followed]
    reads = view.next_op[anys]
    followed = view.is_at(view.named("aten::item", "aten::is_nonzero"), reads)
    if followed.sum() < _MIN_CHECKS:
        return
    rows = np.sort(np.concatenate([checks[followed], anys[followed], reads[followed]]))
    detail = f"{int(followed.sum())} results of the backward pass were searched for NaN"
    node_of = view.op_around[rows]
    cost_ns = np.zeros(len(view), dtype=np.int64)
    np.add.at(cost_ns, node_of, view.duration_ns[rows])
    nodes_checked = np.unique(node_of)
    yield Match(
        nodes_checked, Level.HIGH, detail, cost_ns[nodes_checked], saving=(0.9, 1.0), severity=Level.MEDIUM
    )


@pattern(
    "graph-kept-by-sum",
    title="A running sum keeps the graph of every step alive",
    needs=(Need.TENSORS, Need.STEPS),
    why="Memory grows with each step, for the sum holds the graph of all losses it is made of.",
    found=f"`add` of two single numbers that both require gradients, in at least {_MIN_STEPS} steps, "
    "where the sum "
    "so far was allocated in an earlier step.",
    advice="Add up the number, not the tensor.",
    example="total += loss.item()  # or loss.detach(), which does not wait for the device",
    limits="Losses kept in a list are not seen.",
    url="https://docs.pytorch.org/docs/stable/notes/faq.html#my-model-reports-cuda-runtime-error-2-out-of-memory",
)
def graph_kept_by_sum(view: View) -> Iterator[Match]:
    adds = view.ops_named("aten::add", "aten::add_")
    adds = adds[(view.step[adds] != NONE) & view.is_outermost_op[adds] & ~view.in_backward[adds]]
    tensors = view.recording.tensors
    of_adds = tensors[np.isin(tensors["event"], adds) & (tensors["argument"] <= 1)]
    tracked = (of_adds["elements"] == 1) & (of_adds["flags"] & TensorFlags.REQUIRES_GRAD != 0)
    events, counts = np.unique(of_adds["event"][tracked], return_counts=True)
    both = np.isin(of_adds["event"], events[counts == 2]) & (of_adds["argument"] == 0)
    sums = of_adds[both]
    rows = sums["event"].astype(np.int64)
    made_in = _step_of_allocation(view, sums["address"], view.events.start_ns[rows])
    rows = rows[(made_in != NONE) & (made_in < view.step[rows])]
    if view.steps_with(rows) >= _MIN_STEPS:
        detail = f"a loss with its graph was added to a sum in {view.steps_with(rows)} steps"
        yield Match(rows, Level.HIGH, detail, saving=(0.0, 1.0), severity=Level.HIGH)


def _step_of_allocation(view: View, address: npt.NDArray[np.uint64], before_ns: Numbers) -> Numbers:
    """The index of the step in which memory at an address was allocated last; `NONE` = not known."""
    begins_ns = np.array([step.start_ns for step in view.recording.steps], dtype=np.int64)
    found = np.full(len(address), NONE, dtype=np.int64)
    for index, (at, until_ns) in enumerate(zip(address.tolist(), before_ns.tolist(), strict=True)):
        times_ns = view.allocations_before(at, until_ns)
        if len(times_ns):
            found[index] = np.searchsorted(begins_ns, times_ns[-1], side="right") - 1
    return found
