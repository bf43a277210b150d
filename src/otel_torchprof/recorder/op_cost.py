"""What counting adds to an op, measured where it runs: half of it is torch's part, and machines differ."""

from __future__ import annotations

from statistics import median
from typing import Protocol

from otel_torchprof.recorder.bridge import load_bridge
from otel_torchprof.recorder.op_counts import OpCounts
from otel_torchprof.recorder.torch_profiler import torch_profiler_records

ASSUMED_OP_COST_NS = 170.0
"""What it is taken for where it cannot be measured, as `make bench` found it."""

_PAIRS = 11
_OPS = 200


class TimedOps(Protocol):
    """What is measured with: the bridge."""

    @property
    def records(self) -> bool:
        """Whether anyone would record these ops."""

    def time_ops(self, count: int) -> int:
        """Runs a small op `count` times: the nanoseconds that took, 0 when it could not."""


class Switch(Protocol):
    """What is measured: `OpCounts`."""

    def start(self) -> None:
        """Counts ops."""

    def sample(self, weight: int) -> None:
        """Counts each op for `weight`, none when it is 0."""

    def stop(self) -> None:
        """Counts no more."""


def measure_op_cost_ns(counts: Switch | None = None, timed: TimedOps | None = None) -> float:
    """Measures with some thousand small ops on the calling thread: some milliseconds.

    Ops run in turns with and without being counted, and the median of the differences is taken: whoever
    interrupts the thread interrupts some turns, not most.

    Args:
        counts: not started, and used for nothing else; None makes one. No other may count meanwhile.
        timed: what runs the ops; None takes the bridge.

    Returns:
        Nanoseconds an op; `ASSUMED_OP_COST_NS` while anyone records, as these ops would be in what they
        record, where torch refused the ops, or when a disturbed machine gave a figure that is none.

    Raises:
        BridgeUnavailable: ops cannot be counted with this torch on this machine.
        RuntimeError: another one counts.
    """
    counts = counts or OpCounts(max_names=1)
    timed = timed or load_bridge()
    if timed.records or torch_profiler_records():
        return ASSUMED_OP_COST_NS
    counts.start()
    try:
        differences = []
        for _ in range(_PAIRS):
            counts.sample(0)
            plain_ns = timed.time_ops(_OPS)
            counts.sample(1)
            counted_ns = timed.time_ops(_OPS)
            if not plain_ns or not counted_ns:
                return ASSUMED_OP_COST_NS
            differences.append(counted_ns - plain_ns)
    finally:
        counts.stop()
    cost_ns = median(differences) / _OPS
    return cost_ns if cost_ns > 0 else ASSUMED_OP_COST_NS
