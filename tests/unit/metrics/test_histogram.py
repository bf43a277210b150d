"""Histograms against plain counting."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.metrics.families import Exemplar, HistogramPoint
from otel_torchprof.metrics.histogram import Histogram
from otel_torchprof.semconv_metrics import METRICS, SHORT_BOUNDS_S

_BOUNDS = (0.001, 0.5, 1.0, 2.5)
_VALUES = st.lists(st.floats(0, 10) | st.sampled_from([0.0, *_BOUNDS]), max_size=30)


def histogram_of(values: list[float], *, exponential: bool = False) -> Histogram:
    histogram = Histogram(_BOUNDS, exponential=exponential)
    histogram.add_many(np.array(values, dtype=np.float64))
    return histogram


def point(histogram: Histogram) -> HistogramPoint:
    return histogram.point({"key": "value"}, 5)


def exemplar(value: float, unix_ns: int) -> Exemplar:
    return Exemplar(value, unix_ns, bytes(range(16)), bytes(range(8)))


@given(_VALUES)
def test_each_value_is_in_the_bucket_whose_bound_it_does_not_exceed(values: list[float]) -> None:
    counts = [0] * (len(_BOUNDS) + 1)
    for value in values:
        counts[bisect_left(_BOUNDS, value)] += 1
    got = point(histogram_of(values))
    assert got.bucket_counts == counts
    assert (got.count, got.min, got.max) == (
        len(values),
        min(values, default=None),
        max(values, default=None),
    )
    assert math.isclose(got.sum, math.fsum(values), abs_tol=1e-9)
    assert (got.attributes, got.start_unix_ns) == ({"key": "value"}, 5)


@given(_VALUES, _VALUES, st.booleans())
def test_merging_counts_both(values: list[float], more: list[float], exponential: bool) -> None:
    merged = histogram_of(values, exponential=exponential)
    merged.merge(histogram_of(more, exponential=exponential))
    got, expected = point(merged), point(histogram_of(values + more, exponential=exponential))
    assert math.isclose(got.sum, expected.sum, abs_tol=1e-9)
    for name in ("bucket_counts", "count", "min", "max", "exponential"):
        assert getattr(got, name) == getattr(expected, name)


@given(_VALUES)
def test_one_by_one_or_at_once_is_the_same(values: list[float]) -> None:
    one_by_one = Histogram(_BOUNDS, exponential=True)
    for value in values:
        one_by_one.add(value)
    assert point(one_by_one).bucket_counts == point(histogram_of(values)).bucket_counts


def test_what_is_no_length_does_not_get_in() -> None:
    got = point(histogram_of([math.nan, math.inf, -math.inf, -1.0, 2.0]))
    assert (got.bucket_counts, got.sum, got.min, got.max) == ([1, 0, 0, 1, 0], 2.0, 0.0, 2.0)


def test_an_empty_one_has_no_extremes() -> None:
    got = point(Histogram(_BOUNDS, exponential=True))
    assert (got.count, got.sum, got.min, got.max, got.exemplars) == (0, 0.0, None, None, ())
    assert got.exponential is not None
    assert list(got.exponential.counts) == []


def test_of_each_bucket_the_latest_exemplar_is_kept() -> None:
    histogram = Histogram(_BOUNDS)
    histogram.add(0.7, exemplar(0.7, 1))
    histogram.add(0.6, exemplar(0.6, 2))
    histogram.add(0.9)
    histogram.add(100.0, exemplar(100.0, 3))
    assert [kept.value for kept in point(histogram).exemplars] == [0.6, 100.0]


def test_merging_keeps_the_later_exemplar() -> None:
    earlier, later = Histogram(_BOUNDS), Histogram(_BOUNDS)
    earlier.add(0.7, exemplar(0.7, 1))
    earlier.add(2.0, exemplar(2.0, 9))
    later.add(0.8, exemplar(0.8, 2))
    for one, other in ((earlier, later), (later, earlier)):
        merged = Histogram(_BOUNDS)
        merged.merge(one)
        merged.merge(other)
        assert [kept.value for kept in point(merged).exemplars] == [0.8, 2.0]


def test_unlike_histograms_do_not_merge() -> None:
    with pytest.raises(ValueError, match="other bounds"):
        Histogram(_BOUNDS).merge(Histogram(_BOUNDS[1:]))
    with pytest.raises(ValueError, match="exponential"):
        Histogram(_BOUNDS).merge(Histogram(_BOUNDS, exponential=True))


def test_a_point_does_not_change_afterwards() -> None:
    histogram = histogram_of([1.0], exponential=True)
    before = point(histogram)
    copy = (list(before.bucket_counts), before.count, before.exponential)
    histogram.add(1.0)
    assert (list(before.bucket_counts), before.count, before.exponential) == copy


def test_threads_lose_no_value() -> None:
    histogram, other = (
        Histogram(SHORT_BOUNDS_S, exponential=True),
        Histogram(SHORT_BOUNDS_S, exponential=True),
    )
    together = threading.Barrier(4)

    def work() -> None:
        together.wait()
        for index in range(500):
            histogram.add(2.0**-index)
            # Each into the other: neither may wait for ever.
            other.merge(Histogram(SHORT_BOUNDS_S, exponential=True))
            histogram.point({}, 0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    got = point(histogram)
    assert got.count == sum(got.bucket_counts) == 2000
    assert got.exponential is not None
    assert sum(got.exponential.counts) == 2000


def test_two_that_are_merged_into_each_other_do_not_wait_for_each_other() -> None:
    one, other = histogram_of([1.0]), histogram_of([2.0])
    together = threading.Barrier(2)

    def merge(target: Histogram, source: Histogram) -> None:
        together.wait()
        for _ in range(20):
            target.merge(source)

    threads = [
        threading.Thread(target=merge, args=pair, daemon=True) for pair in ((one, other), (other, one))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("metric", [metric for metric in METRICS if metric.kind == "histogram"])
def test_bounds_of_all_metrics_ascend(metric: object) -> None:
    bounds = getattr(metric, "bounds", ())
    assert len(bounds) > 10
    assert list(bounds) == sorted(set(bounds))
