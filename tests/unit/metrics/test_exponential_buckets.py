"""Exponential buckets against their definition, and against those of OpenTelemetry's SDK."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import ExponentialHistogramDataPoint, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View

from otel_torchprof.metrics.exponential_buckets import ExponentialCounts, bucket_index
from otel_torchprof.metrics.families import ExponentialBuckets

_POSITIVE = st.floats(5e-324, 1.7e308) | st.floats(1e-6, 1e3) | st.integers(-1070, 1000).map(lambda e: 2.0**e)
_VALUES = st.lists(_POSITIVE | st.just(0.0), max_size=40)


def counts_of(values: list[float]) -> ExponentialCounts:
    counts = ExponentialCounts()
    counts.add(np.array(values, dtype=np.float64))
    return counts


def index_of(value: float, scale: int) -> int:
    return int(bucket_index(np.array([value]), scale)[0])


@given(_POSITIVE, st.integers(-10, 0))
def test_at_coarse_scales_a_value_lies_in_its_bucket_exactly(value: float, scale: int) -> None:
    index, width = index_of(value, scale), 1 << -scale
    assert Fraction(2) ** (index * width) < Fraction(value) <= Fraction(2) ** ((index + 1) * width)


@given(st.floats(1e-9, 1e9), st.integers(1, 20))
def test_at_fine_scales_a_value_lies_in_its_bucket_but_for_rounding(value: float, scale: int) -> None:
    place = math.log2(value) * 2**scale
    index = index_of(value, scale)
    # The error of a logarithm, in buckets.
    assert index - 1e-6 <= place <= index + 1 + 1e-6


@given(st.integers(-1070, 1000), st.integers(0, 20))
def test_a_power_of_two_is_the_upper_bound_of_its_bucket(exponent: int, scale: int) -> None:
    assert index_of(2.0**exponent, scale) == (exponent << scale) - 1


@given(_VALUES)
def test_nothing_is_lost_and_160_buckets_are_enough(values: list[float]) -> None:
    buckets = counts_of(values).buckets()
    assert len(buckets.counts) <= 160
    assert buckets.zero_count == values.count(0.0)
    assert sum(buckets.counts) + buckets.zero_count == len(values)
    for place, count in enumerate(buckets.counts):
        inside = [
            value
            for value in values
            if value > 0 and index_of(value, buckets.scale) == buckets.offset + place
        ]
        assert len(inside) == count


@given(_VALUES, _VALUES)
def test_merging_is_counting_all(values: list[float], more: list[float]) -> None:
    merged = counts_of(values)
    merged.merge(counts_of(more))
    assert merged.buckets() == counts_of(values + more).buckets()


@given(_VALUES)
def test_the_order_and_the_portions_do_not_matter(values: list[float]) -> None:
    one_by_one = ExponentialCounts()
    for value in values:
        one_by_one.add(np.array([value]))
    assert one_by_one.buckets() == counts_of(values).buckets()


def sdk_buckets(values: list[float]) -> ExponentialBuckets:
    reader = InMemoryMetricReader()
    aggregation = ExponentialBucketHistogramAggregation(max_size=160, max_scale=20)
    provider = MeterProvider([reader], views=[View(instrument_name="*", aggregation=aggregation)])
    instrument = provider.get_meter("test").create_histogram("values")
    for value in values:
        instrument.record(value)
    data = reader.get_metrics_data()
    assert data is not None
    (point,) = data.resource_metrics[0].scope_metrics[0].metrics[0].data.data_points
    assert isinstance(point, ExponentialHistogramDataPoint)
    positive = point.positive
    return ExponentialBuckets(point.scale, point.zero_count, positive.offset, list(positive.bucket_counts))


def trimmed(buckets: ExponentialBuckets) -> dict[int, int]:
    return {buckets.offset + place: count for place, count in enumerate(buckets.counts) if count}


# Away from bounds of buckets, where the SDK's logarithm rounds otherwise than ours.
_FOR_SDK = st.lists(st.floats(1e-6, 1e3).map(lambda value: value * (1 + 1e-7)), min_size=1, max_size=30)


@given(_FOR_SDK)
def test_the_sdk_counts_the_same(values: list[float]) -> None:
    ours, sdks = counts_of(values).buckets(), sdk_buckets(values)
    # The SDK may choose one scale coarser than need be.
    shift = ours.scale - sdks.scale
    assert shift in (0, 1)
    coarser: dict[int, int] = {}
    for index, count in trimmed(ours).items():
        coarser[index >> shift] = coarser.get(index >> shift, 0) + count
    assert coarser == trimmed(sdks)
    assert ours.zero_count == sdks.zero_count
