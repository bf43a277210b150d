"""Differences for exporters that prefer deltas: nothing lost and nothing twice, whatever fails."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.metrics.families import Exemplar, ExponentialBuckets, HistogramPoint, MetricFamily
from otel_torchprof.telemetry.metric_differences import Differences
from tests.support.metric_families import EXEMPLAR, START_NS, op_calls, step_durations, step_number


def all_differences() -> Differences:
    return Differences(of_counters=True, of_histograms=True)


def values(families: list[MetricFamily]) -> list[object]:
    return [getattr(point, "value", None) for family in families for point in family.points]


def only_histogram(families: list[MetricFamily]) -> HistogramPoint:
    ((point,),) = [family.points for family in families]
    assert isinstance(point, HistogramPoint)
    return point


def test_a_counter_is_sent_as_what_it_grew_by_since_the_last_delivery() -> None:
    differences = all_differences()
    (first,) = differences.since_delivered([op_calls(5)], 2_000)
    assert [(point.start_unix_ns, getattr(point, "value", 0)) for point in first.points] == [(START_NS, 5)]
    differences.delivered()
    (second,) = differences.since_delivered([op_calls(12)], 3_000)
    assert [(point.start_unix_ns, getattr(point, "value", 0)) for point in second.points] == [(2_000, 7)]


def test_what_failed_is_in_the_next_difference() -> None:
    differences = all_differences()
    differences.since_delivered([op_calls(5)], 2_000)
    differences.delivered()
    differences.since_delivered([op_calls(9)], 3_000)  # did not arrive
    (family,) = differences.since_delivered([op_calls(12)], 4_000)
    assert [(point.start_unix_ns, getattr(point, "value", 0)) for point in family.points] == [(2_000, 7)]


def test_series_that_did_not_grow_are_left_out_and_gauges_are_not() -> None:
    differences = all_differences()
    families = [op_calls(5), step_durations({3: 1}), step_number(7)]
    differences.since_delivered(families, 2_000)
    differences.delivered()
    again = differences.since_delivered(families, 3_000)
    assert [len(family.points) for family in again] == [0, 0, 1]


def test_a_series_that_was_away_is_not_sent_again_from_its_start() -> None:
    differences = all_differences()
    for family in (op_calls(5), op_calls(2, "aten::mul")):
        differences.since_delivered([family], 2_000)
        differences.delivered()
    assert values(differences.since_delivered([op_calls(6)], 3_000)) == [1]


def test_a_series_that_started_over_is_sent_whole_and_one_that_shrank_not_at_all() -> None:
    differences = all_differences()
    differences.since_delivered([op_calls(5)], 2_000)
    differences.delivered()
    assert values(differences.since_delivered([op_calls(3, start_ns=2_500)], 3_000)) == [3]
    assert values(differences.since_delivered([op_calls(3)], 3_000)) == []


def test_only_what_is_preferred_is_a_difference() -> None:
    differences = Differences(of_counters=False, of_histograms=True)
    families = [op_calls(5), step_durations({3: 2})]
    differences.since_delivered(families, 2_000)
    differences.delivered()
    calls, durations = differences.since_delivered(families, 3_000)
    assert values([calls]) == [5]
    assert durations.points == []


def test_a_histogram_difference_has_new_exemplars_only_and_no_extremes() -> None:
    differences = all_differences()
    differences.since_delivered([step_durations({3: 1, 8: 1}, exemplars=[EXEMPLAR])], 2_000)
    differences.delivered()
    newer = Exemplar(0.3, 6_000, bytes(16), bytes(8))
    point = only_histogram(
        differences.since_delivered([step_durations({3: 1, 8: 4}, exemplars=[EXEMPLAR, newer])], 3_000)
    )
    assert (point.count, sum(point.bucket_counts), point.bucket_counts[8]) == (3, 3, 3)
    assert (point.min, point.max, point.start_unix_ns) == (None, None, 2_000)
    assert point.exemplars == [newer]
    assert abs(point.sum - 3 * 0.256) < 1e-9


def test_an_exemplar_that_comes_after_its_count_is_sent_by_itself() -> None:
    differences = all_differences()
    differences.since_delivered([step_durations({8: 1})], 2_000)
    differences.delivered()
    with_exemplar = [step_durations({8: 1}, exemplars=[EXEMPLAR])]
    point = only_histogram(differences.since_delivered(with_exemplar, 3_000))
    assert (point.count, point.exemplars) == (0, [EXEMPLAR])
    differences.delivered()
    (family,) = differences.since_delivered(with_exemplar, 4_000)
    assert family.points == []


def test_exponential_buckets_that_became_coarser_are_compared_at_the_coarser_scale() -> None:
    differences = all_differences()
    fine = ExponentialBuckets(scale=1, zero_count=1, offset=-3, counts=[1, 2, 0, 3])  # indices -3 to 0
    differences.since_delivered([step_durations({0: 7}, exponential=fine)], 2_000)
    differences.delivered()
    coarse = ExponentialBuckets(scale=0, zero_count=2, offset=-2, counts=[1, 2, 3, 4])
    point = only_histogram(differences.since_delivered([step_durations({0: 12}, exponential=coarse)], 3_000))
    # At scale 0 the fine ones are {-2: 1, -1: 2, 0: 3}.
    assert point.exponential == ExponentialBuckets(scale=0, zero_count=1, offset=1, counts=[4])


@given(
    growth=st.lists(st.tuples(st.integers(0, 1_000), st.booleans(), st.booleans()), min_size=1, max_size=30)
)
def test_differences_that_arrived_add_up_to_the_total(growth: list[tuple[int, bool, bool]]) -> None:
    differences = all_differences()
    total = arrived = 0
    for collection, (grown, is_delivered, is_there) in enumerate([*growth, (0, True, True)]):
        total += grown
        families = [op_calls(total)] if is_there else []
        sent = sum(value for value in values(differences.since_delivered(families, 2_000 + collection)))  # type: ignore[misc]
        if is_delivered:
            differences.delivered()
            arrived += sent
    assert arrived == total


def test_the_families_themselves_stay_as_they_are() -> None:
    family = op_calls(5)
    before = replace(family)
    differences = all_differences()
    differences.since_delivered([family], 2_000)
    differences.delivered()
    differences.since_delivered([family], 3_000)
    assert family == before
