"""Paired runs: two candidates measured alternately, so that a drifting machine moves both alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import median, quantiles

Measurement = Callable[[], float]


@dataclass(frozen=True)
class Paired:
    """Medians over the runs, in the unit the measurements return.

    `ratio_quartiles` are the first and the third of a run's figure divided by that of its pair: how far a
    ratio of the medians can be trusted.
    """

    a: float
    b: float
    ratio_quartiles: tuple[float, float]


def paired(a: Measurement, b: Measurement, repeats: int = 7) -> Paired:
    """Runs `a` and `b` once each to warm up, then `repeats` times alternately, the order swapped every time.

    Each call makes one run and returns its figure, for instance nanoseconds an op.
    """
    a()
    b()
    figures_a: list[float] = []
    figures_b: list[float] = []
    for repeat in range(repeats):
        if repeat % 2 == 0:
            figures_a.append(a())
            figures_b.append(b())
        else:
            figures_b.append(b())
            figures_a.append(a())
    return Paired(median(figures_a), median(figures_b), _quartiles_of_ratios(figures_a, figures_b))


def _quartiles_of_ratios(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    ratios = [one / other for one, other in zip(a, b, strict=True) if other]
    if len(ratios) < 2:
        return min(ratios, default=nan), max(ratios, default=nan)
    first, _, third = quantiles(ratios, n=4, method="inclusive")
    return first, third


def elapsed_ns(work: Callable[[], object]) -> int:
    """Wall time of one call in nanoseconds, with Python's garbage collector out of the way."""
    gc.collect()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        start_ns = time.perf_counter_ns()
        work()
        return time.perf_counter_ns() - start_ns
    finally:
        if was_enabled:
            gc.enable()
