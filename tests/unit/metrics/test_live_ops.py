"""Ops that are counted live: names, phases and units, and no count that ever gets less."""

from __future__ import annotations

from typing import NamedTuple

from otel_torchprof.metrics.families import HistogramPoint, MetricFamily, NumberPoint
from otel_torchprof.metrics.live_ops import LiveOps
from otel_torchprof.recorder.op_counts import OpPhase
from otel_torchprof.semconv_metrics import (
    OP_CALLS,
    OP_DURATION,
    OP_SELF_TIME,
    OP_TIME,
    OTHER,
    SHORT_BOUNDS_S,
    TOP_NAMES,
)

TABLE_FULL = "(name table full)"
START_NS, NOW_NS, LATER_NS = 5, 10**9, 100 * 10**9


class Op(NamedTuple):
    name: str
    calls: int
    total_ns: int = 0
    self_ns: int = 0
    phase: OpPhase = OpPhase.FORWARD
    duration_counts: tuple[int, ...] | None = None
    is_user: bool = False


def values(families: list[MetricFamily], metric: str) -> dict[tuple[object, object], int | float]:
    (family,) = [family for family in families if family.metric.name == metric]
    return {
        (point.attributes["torch.op.name"], point.attributes["torch.phase"]): point.value
        for point in family.points
        if isinstance(point, NumberPoint)
    }


def test_calls_and_times_by_name_and_phase() -> None:
    ops = LiveOps(START_NS, table_full=TABLE_FULL)
    families = ops.families(
        [
            Op("aten::mm", 3, 9_000, 6_000),
            Op("aten::mm", 2, 4_000, 4_000, OpPhase.BACKWARD),
            Op(TABLE_FULL, 7, 8, 9),
        ],
        NOW_NS,
    )
    assert [family.metric.name for family in families] == [OP_CALLS, OP_TIME, OP_SELF_TIME]
    mm, backward, rest = ("aten::mm", "forward"), ("aten::mm", "backward"), (OTHER, "forward")
    assert values(families, OP_CALLS) == {mm: 3, backward: 2, rest: 7}
    assert values(families, OP_TIME) == {mm: 9e-6, backward: 4e-6, rest: 8e-9}
    assert values(families, OP_SELF_TIME) == {mm: 6e-6, backward: 4e-6, rest: 9e-9}


def test_names_of_user_scopes_pass_the_hook_once() -> None:
    asked: list[str] = []

    def redact(name: str) -> str:
        asked.append(name)
        return "scope"

    ops = LiveOps(START_NS, table_full=TABLE_FULL, redact=redact)
    counted = [
        Op("aten::mm", 1),
        Op("aten::mm", 2, is_user=True),
        Op("for alice", 4, is_user=True),
        Op(TABLE_FULL, 8, is_user=True),
    ]
    for now_ns in (NOW_NS, LATER_NS):
        calls = values(ops.families(counted, now_ns), OP_CALLS)
        assert calls == {("aten::mm", "forward"): 1, ("scope", "forward"): 6, (OTHER, "forward"): 8}
    assert asked == ["aten::mm", "for alice"]


def test_names_that_differ_by_a_hash_are_one() -> None:
    ops = LiveOps(START_NS, table_full=TABLE_FULL)
    names = [f"Torch-Compiled Region: 0/{compile_id}" for compile_id in range(3)]
    families = ops.families([Op(name, 1) for name in names], NOW_NS)
    assert list(values(families, OP_CALLS).values()) == [3]


def test_many_names_are_few_series_and_add_up() -> None:
    ops = LiveOps(START_NS, table_full=TABLE_FULL)
    counted = [Op(f"user {chr(97 + i % 26)}{chr(97 + i // 26)}", 1, 0, 1_000 + i) for i in range(500)]
    calls = values(ops.families(counted, NOW_NS), OP_CALLS)
    assert len({name for name, _ in calls}) <= TOP_NAMES + 1
    assert sum(calls.values()) == 500


def test_no_series_ever_gets_less() -> None:
    ops = LiveOps(START_NS, table_full=TABLE_FULL)
    before: dict[tuple[object, object], int | float] = {}
    for round_ in range(1, 8):
        counted = [
            Op(f"op {chr(97 + i % 26)}{chr(97 + i // 26)}", round_ * (i + 1), 0, round_ * i * i)
            for i in range(100)
        ]
        calls = values(ops.families(counted, round_ * LATER_NS), OP_CALLS)
        assert all(calls[key] >= value for key, value in before.items())
        assert sum(calls.values()) == round_ * 5050
        before = calls


def test_durations_where_they_are_counted() -> None:
    ops = LiveOps(START_NS, table_full=TABLE_FULL)
    counts = (1, *[0] * (len(SHORT_BOUNDS_S) - 1), 2)
    families = ops.families([Op("aten::mm", 3, 9_000, 1, duration_counts=counts)], NOW_NS)
    (family,) = [family for family in families if family.metric.name == OP_DURATION]
    (point,) = family.points
    assert isinstance(point, HistogramPoint)
    assert (tuple(point.bucket_counts), point.count, point.sum) == (counts, 3, 9e-6)
    assert point.start_unix_ns == START_NS


def test_nothing_counted_is_nothing_said() -> None:
    ops = LiveOps(START_NS, table_full=TABLE_FULL)
    assert ops.families([], NOW_NS) == []
    assert ("aten::mm", "forward") in values(ops.families([Op("aten::mm", 1)], NOW_NS + 1), OP_CALLS)
