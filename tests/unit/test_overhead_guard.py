"""When measuring takes too much for too long, on a clock and at a cost of the test."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.live.overhead_guard import WINDOW_NS, WINDOWS_TO_TRIP, OverheadGuard

SECOND_NS = 1_000_000_000


class Measuring:
    """Takes what the test says of each window."""

    def __init__(self, max_share: float = 0.02) -> None:
        self.now_ns = 5_000
        self.cost_ns = 123.0
        self.guard = OverheadGuard(max_share, lambda: self.cost_ns, clock_ns=lambda: self.now_ns)

    def spend(self, share: float, wall_ns: int = WINDOW_NS) -> bool:
        """Time passes, `share` of it for measuring: what the guard says then."""
        self.now_ns += wall_ns
        self.cost_ns += share * wall_ns
        return self.guard.is_over()


def test_three_windows_in_a_row_above_the_bound_are_too_many() -> None:
    measuring = Measuring()
    assert [measuring.spend(0.03) for _ in range(7)] == [False, False, True, False, False, True, False]


def test_a_window_below_the_bound_ends_the_row() -> None:
    measuring = Measuring()
    assert not any(measuring.spend(share) for share in (0.5, 0.5, 0.01, 0.5, 0.5, 0.02, 0.5, 0.5, 0.0))


@given(st.lists(st.sampled_from([0.0, 0.019, 0.021, 0.9]), max_size=40))
def test_it_trips_exactly_after_every_third_window_of_a_row(shares: Sequence[float]) -> None:
    measuring = Measuring()
    row = 0
    for share in shares:
        row = row + 1 if share > 0.02 else 0
        assert measuring.spend(share) is (row == WINDOWS_TO_TRIP)
        row %= WINDOWS_TO_TRIP


def test_looks_within_a_window_end_none() -> None:
    measuring = Measuring()
    looks_a_window = WINDOW_NS // SECOND_NS
    said = [measuring.spend(0.03, SECOND_NS) for _ in range(3 * looks_a_window)]
    assert said.index(True) == len(said) - 1


def test_a_look_that_comes_late_ends_one_window_however_long_it_is() -> None:
    measuring = Measuring()
    assert [measuring.spend(0.03, 10 * WINDOW_NS) for _ in range(3)] == [False, False, True]
    # A pause of the whole process is no cheap window only because it is long: the mean counts.
    measuring.now_ns += 100 * WINDOW_NS
    assert measuring.spend(1.0) is False
    assert measuring.guard.share == pytest.approx(1 / 101)


def test_the_share_is_that_of_the_last_whole_window() -> None:
    measuring = Measuring()
    assert measuring.guard.share == 0.0  # no time has passed
    measuring.spend(0.5, SECOND_NS)
    assert measuring.guard.share == pytest.approx(0.5)  # so far
    measuring.spend(0.0)
    whole = 0.5 * SECOND_NS / (WINDOW_NS + SECOND_NS)
    assert measuring.guard.share == pytest.approx(whole)
    measuring.spend(0.9, SECOND_NS)
    assert measuring.guard.share == pytest.approx(whole)


@pytest.mark.parametrize("begin", [OverheadGuard.start_over, OverheadGuard.start_over_in_child])
def test_started_over_nothing_of_before_counts(begin: object) -> None:
    measuring = Measuring()
    measuring.spend(0.9)
    measuring.spend(0.9)
    measuring.spend(0.9, SECOND_NS)
    begin(measuring.guard)  # type: ignore[operator]
    assert measuring.guard.share == 0.0
    assert [measuring.spend(0.03) for _ in range(3)] == [False, False, True]


def test_a_cost_that_begins_at_zero_again_is_none() -> None:
    measuring = Measuring()
    measuring.spend(0.9)
    measuring.cost_ns = 0.0
    assert measuring.spend(0.0) is False
    assert measuring.guard.share == 0.0
