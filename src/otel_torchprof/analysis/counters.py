"""What perf events counted: by step, by thread, and over user spans and ops by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import Recording

# As native/core/counter_series.h has them.
_COUNTED = "count"
_ESTIMATED = "estimate"

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CounterTotals:
    """Sums, one row a step, thread or name, one column a counter; NaN where nothing was counted."""

    counters: tuple[str, ...]
    estimated: frozenset[str]
    """Counters that had their turn for a part of the time only: some of their values are scaled up."""
    by_step: Values
    """Over all threads; rows as `Recording.steps`."""
    tracks: tuple[int, ...]
    """Of the rows of `by_thread`."""
    by_thread: Values
    events: tuple[str, ...]
    """Names of the user spans and ops that were counted over, the rows of `by_event`."""
    calls: tuple[int, ...]
    by_event: Values

    def __bool__(self) -> bool:
        return bool(self.counters)

    @property
    def total(self) -> Values:
        """Over all threads, as long as the capture lasted."""
        return sum_rows(self.by_thread)


def counter_totals(recording: Recording) -> CounterTotals:
    """Sums up what a recording counted. Counters that others read, or that are levels, are not among them."""
    records = recording.counters
    series = {int(name): recording.overload_name(int(name)) for name in np.unique(records["name"])}
    counter_of = {name: recording.name(name) for name in series if series[name] in {_COUNTED, _ESTIMATED}}
    counters = tuple(dict.fromkeys(counter_of.values()))
    column_of = np.full(max(series, default=0) + 1, -1, dtype=np.int64)
    for name, counter in counter_of.items():
        column_of[name] = counters.index(counter)
    records = records[column_of[records["name"]] >= 0]
    columns = column_of[records["name"]]
    over_events = records["event"] >= 0
    of_threads, thread_columns = records[~over_events], columns[~over_events]
    tracks, thread_rows = np.unique(of_threads["track"], return_inverse=True)
    steps = _steps_of(recording, of_threads["time_ns"])
    in_steps = steps >= 0
    of_events = records[over_events]
    name_ids, event_rows = np.unique(recording.events.name[of_events["event"]], return_inverse=True)
    # The same names in the same order, each event once.
    _names, calls = np.unique(recording.events.name[np.unique(of_events["event"])], return_counts=True)
    return CounterTotals(
        counters=counters,
        estimated=frozenset(counter_of[name] for name in counter_of if series[name] == _ESTIMATED),
        by_step=_sum_up(
            steps[in_steps],
            thread_columns[in_steps],
            of_threads["value"][in_steps],
            (len(recording.steps), len(counters)),
        ),
        tracks=tuple(tracks.tolist()),
        by_thread=_sum_up(thread_rows, thread_columns, of_threads["value"], (len(tracks), len(counters))),
        events=tuple(recording.name(name) for name in name_ids.tolist()),
        calls=tuple(calls.tolist()),
        by_event=_sum_up(
            event_rows, columns[over_events], of_events["value"], (len(name_ids), len(counters))
        ),
    )


def _steps_of(recording: Recording, times_ns: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The step each reading belongs to, -1 = none.

    A step's last reading comes no later than its end, that of the step before no later than its start.
    """
    if not recording.steps:
        return np.full(len(times_ns), -1, dtype=np.int64)
    start_ns = np.array([step.start_ns for step in recording.steps], dtype=np.int64)
    end_ns = np.array([step.end_ns for step in recording.steps], dtype=np.int64)
    step = np.searchsorted(start_ns, times_ns, side="left") - 1
    return np.where((step >= 0) & (times_ns <= end_ns[step]), step, -1)


def _sum_up(
    rows: npt.NDArray[np.int64],
    columns: npt.NDArray[np.int64],
    values: Values,
    shape: tuple[int, int],
) -> Values:
    place = (rows.reshape(-1), columns)
    sums, known = np.zeros(shape), np.zeros(shape, dtype=bool)
    np.add.at(sums, place, values)
    known[place] = True
    return np.where(known, sums, np.nan)


def sum_rows(values: Values) -> Values:
    """The sum of each column, NaN for one without a value."""
    known = ~np.isnan(values).all(axis=0)
    return np.where(known, np.nansum(values, axis=0), np.nan)


def unit_of(counter: str) -> str:
    """`ns` for clocks, else nothing: a plain number."""
    return "ns" if counter.partition(":")[0] in {"task-clock", "cpu-clock"} else ""
