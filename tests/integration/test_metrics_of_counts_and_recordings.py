"""One run counted live, and recorded and turned into metrics: both are what a plain implementation says."""

from __future__ import annotations

from collections import Counter

import pytest
import torch

from otel_torchprof.metrics.families import NumberPoint
from otel_torchprof.metrics.from_recording import families_from_recording
from otel_torchprof.metrics.op_metrics import op_families
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.op_counts import OpCounts
from otel_torchprof.recording import Recording
from otel_torchprof.semconv_metrics import OP_CALLS, OP_NAME, PHASE
from tests.support.plain_metrics import plain_op_sums

Calls = Counter[tuple[str, str]]


def train(steps: int) -> None:
    """Forward, backward and optimizer, an optimizer that runs both itself, and operators beside them."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    adam = torch.optim.Adam(model.parameters())
    for _ in range(steps):
        with torch.no_grad():
            batch = torch.rand(3, 4)
        adam.zero_grad()
        model(batch).sum().backward()
        adam.step()
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure() -> torch.Tensor:
        lbfgs.zero_grad()
        loss = model(batch).pow(2).sum()
        loss.backward()
        return loss

    lbfgs.step(closure)


def counted_and_recorded(steps: int) -> tuple[OpCounts, Recording]:
    counts, capture = OpCounts(), Capture()
    capture.start()
    counts.start()
    train(steps)
    counts.stop()
    return counts, capture.stop()


def calls_of(recording: Recording) -> Calls:
    (family,) = (one for one in op_families(recording, 0) if one.metric.name == OP_CALLS)
    return Counter(
        {
            (str(point.attributes[OP_NAME]), str(point.attributes[PHASE])): int(point.value)
            for point in family.points
            if isinstance(point, NumberPoint)
        }
    )


@pytest.mark.parametrize("steps", [1, 3])
def test_calls_by_name_and_phase(steps: int) -> None:
    counts, recording = counted_and_recorded(steps)
    live = Counter({(op.name, op.phase.name.lower()): op.calls for op in counts.collect()})
    plain = Counter({key: sums.calls for key, sums in plain_op_sums(recording).items()})
    assert live == plain
    # Beyond the top names all are `other`.
    recorded = calls_of(recording)
    assert by_phase(recorded) == by_phase(plain)
    own = {key: count for key, count in recorded.items() if key[0] != "other"}
    assert own == {key: plain[key] for key in own}
    assert set(by_phase(plain)) == {"forward", "backward", "optimizer", "other"}


def by_phase(calls: Calls) -> Counter[str]:
    phases: Counter[str] = Counter()
    for (_name, phase), count in calls.items():
        phases[phase] += count
    return phases


def test_a_real_recording_has_few_series_and_all_its_events() -> None:
    _counts, recording = counted_and_recorded(1)
    names = {family.metric.name for family in families_from_recording(recording)}
    assert names == {"torch.op.calls", "torch.op.time", "torch.op.self_time", "torchprof.events.recorded"}
