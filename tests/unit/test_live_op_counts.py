"""When ops are counted: at once, after the bridge was compiled, or not at all. A stand-in counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from otel_torchprof.live import op_counts as live_op_counts
from otel_torchprof.live.op_counts import LiveOpCounts
from otel_torchprof.recorder.bridge import BridgeStatus
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.op_counts import OpCount, OpPhase
from otel_torchprof.recorder.step_sampling import StepSampler

TIMEOUT_S = 60.0
OP_COST_NS = 250.0


class StandIn:
    """Has counted one op as soon as it was started."""

    made: ClassVar[list[StandIn]] = []
    gate = threading.Event()
    started = threading.Event()

    def __init__(self, *, with_durations: bool) -> None:
        self.active = False
        self.weight = 0
        self.counted = 0
        self.drops: dict[str, int] = {}
        self.inference: list[bool] = []
        self.made.append(self)

    def start(self) -> None:
        self.started.set()
        self.gate.wait(TIMEOUT_S)
        self.active = True
        self.sample(1)
        self.counted += 1

    def stop(self) -> None:
        self.active = False

    def sample(self, weight: int) -> None:
        self.weight = weight

    def set_inference(self, is_inference: bool) -> None:
        self.inference.append(is_inference)

    def collect(self) -> list[OpCount]:
        return [OpCount("aten::mm", OpPhase.FORWARD, False, self.counted, 10, 5, None)]


class SwitchingSampler(StepSampler):
    """Has switched once, as soon as it was made."""

    switching_ns = 700


def status(source: str | None) -> Callable[[], BridgeStatus]:
    reason = "" if source else "no bridge: install a compiler"
    found: Any = BridgeStatus(source is not None, source, None, "2.13", reason)  # type: ignore[arg-type]
    return lambda: found


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    StandIn.made = []
    StandIn.gate = threading.Event()
    StandIn.gate.set()
    StandIn.started = threading.Event()
    monkeypatch.setattr(live_op_counts, "OpCounts", StandIn)
    monkeypatch.setattr(live_op_counts, "measure_op_cost_ns", lambda: OP_COST_NS)


def counts(mode: Any = "full") -> LiveOpCounts:
    return LiveOpCounts(mode, 0.01, with_durations=False, backwards=lambda: 0)


def wait_for_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "otel-torchprof-counts":
            thread.join(TIMEOUT_S)


def test_with_a_bridge_at_hand_counting_begins_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_op_counts, "bridge_status", status("cached"))
    ops = counts()
    assert ops.families() == []
    ops.start()
    ops.start()
    assert (ops.counted, len(StandIn.made)) == (1, 1)
    assert next(family.metric.name for family in ops.families()) == "torch.op.calls"
    ops.pause()
    ops.pause()
    assert (ops.counted, StandIn.made[0].active) == (1, False)
    ops.start()  # goes on where it was
    assert (ops.counted, len(StandIn.made)) == (2, 1)
    ops.pause()
    wait_for_threads()


def test_a_bridge_is_compiled_in_the_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_op_counts, "bridge_status", status("to be compiled"))
    StandIn.gate.clear()
    ops = counts()
    ops.start()  # does not wait
    assert ops.counted == 0
    ops.boundary(1)
    StandIn.gate.set()
    wait_for_threads()
    assert ops.counted == 1
    ops.pause()
    assert not StandIn.made[0].active


def test_paused_while_the_bridge_is_compiled_nothing_is_counted_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live_op_counts, "bridge_status", status("to be compiled"))
    StandIn.gate.clear()
    ops = counts()
    ops.start()
    assert StandIn.started.wait(TIMEOUT_S)
    ops.pause()
    StandIn.gate.set()
    wait_for_threads()
    assert not StandIn.made[0].active


def test_without_a_bridge_one_line_says_why_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(failures, "_counts", type(failures._counts)())
    monkeypatch.setattr(live_op_counts, "bridge_status", status(None))
    ops = counts()
    ops.start()
    ops.start()
    ops.boundary(1)
    assert ops.families() == []
    assert caplog.messages == [
        "otel-torchprof: ops are not counted: no bridge: install a compiler (logged once)"
    ]


def test_sampling_begins_with_whole_steps_and_ends_with_its_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_op_counts, "bridge_status", status("cached"))
    ops = counts("sampled")
    ops.start()
    assert StandIn.made[0].weight == 1
    ops.boundary(1)
    ops.pause()
    wait_for_threads()
    assert "otel-torchprof-counts" not in {thread.name for thread in threading.enumerate()}


def test_steps_without_a_backward_are_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_op_counts, "bridge_status", status("cached"))
    backwards = [0]
    ops = LiveOpCounts("full", 0.01, with_durations=False, backwards=lambda: backwards[0])
    ops.start()
    ops.boundary(1)
    backwards[0] = 1
    ops.boundary(2)
    ops.boundary(3)
    ops.pause()
    assert StandIn.made[0].inference == [True, False, True]


def test_what_counting_takes_never_gets_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_op_counts, "bridge_status", status("cached"))
    monkeypatch.setattr(live_op_counts, "StepSampler", SwitchingSampler)
    ops = counts()
    assert ops.cost_ns == 0
    ops.start()
    assert ops.cost_ns == OP_COST_NS + SwitchingSampler.switching_ns
    ops.pause()
    assert ops.cost_ns == OP_COST_NS + SwitchingSampler.switching_ns
    ops.start()
    assert ops.cost_ns == 2 * (OP_COST_NS + SwitchingSampler.switching_ns)
    ops.pause()
    ops.start_over()
    assert ops.cost_ns == 0


def test_started_over_it_counts_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_op_counts, "bridge_status", status("cached"))
    ops = counts()
    ops.start()
    ops.start_over()
    assert (ops.counted, ops.families(), dict(ops.drops)) == (0, [], {})
    ops.start()
    assert (ops.counted, len(StandIn.made)) == (1, 2)
    ops.pause()
