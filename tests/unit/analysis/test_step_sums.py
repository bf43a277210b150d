"""Sums of steps by group, and their medians."""

from __future__ import annotations

import statistics

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.analysis.step_sums import StepSums
from otel_torchprof.analysis.steps import NO_STEP

STEPS, GROUPS = 5, 3
events = st.lists(
    st.tuples(st.integers(NO_STEP, STEPS - 1), st.integers(0, GROUPS - 1), st.integers(0, 100)), max_size=40
)


@given(events, st.lists(st.booleans(), min_size=STEPS, max_size=STEPS))
def test_sums_and_medians_are_those_of_all_steps(
    rows: list[tuple[int, int, int]], counts: list[bool]
) -> None:
    step_of_row, group_of_row, time_of_row = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    sums = StepSums.of(step_of_row, group_of_row, time_of_row, GROUPS)
    times_ns: dict[int, list[int]] = {step: [0] * GROUPS for step in range(STEPS)}
    calls: dict[int, list[int]] = {step: [0] * GROUPS for step in range(STEPS)}
    for step, group, time_ns in rows:
        if step != NO_STEP:
            times_ns[step][group] += time_ns
            calls[step][group] += 1
    for step in range(STEPS):
        assert [column.tolist() for column in sums.in_step(step)] == [calls[step], times_ns[step]]

    def medians(of_step: dict[int, list[int]]) -> list[int]:
        counted = [of_step[step] for step in range(STEPS) if counts[step]]
        return [int(statistics.median(column)) for column in zip(*counted, strict=True)] or [0] * GROUPS

    found = sums.medians(np.array(counts))
    assert [column.tolist() for column in found] == [medians(calls), medians(times_ns)]
