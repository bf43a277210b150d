"""Operators as they are counted live: the busiest names, and the others together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Protocol

from otel_torchprof.analysis.event_names import short_op_name
from otel_torchprof.metrics.families import HistogramPoint, MetricFamily, NumberPoint, Point
from otel_torchprof.metrics.top_names import NamedSeries, TopNames
from otel_torchprof.semconv_metrics import (
    METRIC_BY_NAME,
    OP_CALLS,
    OP_DURATION,
    OP_NAME,
    OP_SELF_TIME,
    OP_TIME,
    OTHER,
    PHASE,
)

# Of the values of a series; what follows are the counts of a histogram's buckets.
_CALLS, _TIME, _SELF_TIME, _BUCKETS = range(4)
_NS_PER_S = 1_000_000_000


class CountedOp(Protocol):
    """What was counted of one name in one phase since counting began: none of it ever gets less.

    The name of the phase is that of `torch.phase`, in capitals.
    """

    @property
    def name(self) -> str: ...
    @property
    def phase(self) -> Enum: ...
    @property
    def is_user(self) -> bool: ...
    @property
    def calls(self) -> int: ...
    @property
    def total_ns(self) -> int: ...
    @property
    def self_ns(self) -> int: ...
    @property
    def duration_counts(self) -> Sequence[int] | None: ...


class LiveOps:
    """Makes metrics of counted ops.

    Args:
        start_unix_ns: when counting began.
        table_full: the name under which the counter puts what it has no room for.
        redact: what names of user scopes pass.
    """

    def __init__(
        self, start_unix_ns: int, *, table_full: str, redact: Callable[[str], str] | None = None
    ) -> None:
        self._top = TopNames[str](_SELF_TIME, start_unix_ns)
        self._table_full = table_full
        self._redact = redact
        self._short_names: dict[tuple[str, bool], str] = {}
        self._lock = threading.RLock()

    def families(self, counted: Iterable[CountedOp], now_unix_ns: int) -> list[MetricFamily]:
        """The metrics of all that was counted; nothing where nothing was."""
        with self._lock:
            totals: dict[tuple[str, str], tuple[int, ...]] = {}
            for op in counted:
                key = (self._short_name(op), op.phase.name.lower())
                values = (op.calls, op.total_ns, op.self_ns, *(op.duration_counts or ()))
                before = totals.get(key)
                totals[key] = values if before is None else tuple(map(int.__add__, before, values))
            if not totals:
                return []  # a look before the program has begun must give no places away
            series = self._top.collect(totals, now_unix_ns)
        families = [
            MetricFamily(METRIC_BY_NAME[OP_CALLS], [_number(one, one.values[_CALLS]) for one in series]),
            _seconds(OP_TIME, series, _TIME),
            _seconds(OP_SELF_TIME, series, _SELF_TIME),
        ]
        if any(len(one.values) > _BUCKETS for one in series):
            families.append(MetricFamily(METRIC_BY_NAME[OP_DURATION], [_histogram(one) for one in series]))
        return families

    def _short_name(self, op: CountedOp) -> str:
        name, is_user = op.name, op.is_user
        if name == self._table_full:
            return OTHER
        short = self._short_names.get((name, is_user))
        if short is None:
            text = name if self._redact is None or not is_user else self._redact(name)
            short = self._short_names[name, is_user] = short_op_name(text)
        return short


def _attributes(one: NamedSeries[str]) -> dict[str, str | int]:
    return {OP_NAME: one.name, PHASE: one.group}


def _number(one: NamedSeries[str], value: int | float) -> Point:
    return NumberPoint(_attributes(one), value, one.start_unix_ns)


def _seconds(name: str, series: Sequence[NamedSeries[str]], value: int) -> MetricFamily:
    return MetricFamily(METRIC_BY_NAME[name], [_number(one, one.values[value] / _NS_PER_S) for one in series])


def _histogram(one: NamedSeries[str]) -> Point:
    return HistogramPoint(
        _attributes(one),
        one.values[_BUCKETS:],
        one.values[_TIME] / _NS_PER_S,
        one.values[_CALLS],
        None,
        None,
        one.start_unix_ns,
    )
