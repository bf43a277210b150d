"""The tables beside the events, and mending what outlasts other slices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.recording import (
    COUNTER_DTYPE,
    DEVICE_DTYPE,
    MEMORY_DTYPE,
    EventKind,
    Recording,
    RecordingBuilder,
    TrackKind,
)


def builder_with_late_event_first() -> RecordingBuilder:
    builder = RecordingBuilder()
    track = builder.add_track("main")
    builder.add_event("late", 50, 60, track=track)
    builder.add_event("early", 10, 20, track=track)
    return builder


def test_rows_of_tables_follow_their_events_and_survive_a_file(tmp_path: Path) -> None:
    builder = builder_with_late_event_first()
    devices = np.zeros(2, dtype=DEVICE_DTYPE)
    devices["event"] = [0, 1]
    devices["grid"] = [[7, 8, 9], [1, 2, 3]]
    builder.add_devices(devices)
    counters = np.zeros(2, dtype=COUNTER_DTYPE)
    counters["time_ns"], counters["event"], counters["value"] = [55, 15], [0, -1], [1.5, -2.5]
    counters["name"] = builder.add_name("load", "cpu")
    builder.add_counters(counters)
    memory = np.zeros(1, dtype=MEMORY_DTYPE)
    memory["time_ns"], memory["event"], memory["size_bytes"], memory["address"] = 70, 1, -512, 1 << 63
    builder.add_memory(memory)
    recording = builder.finish()
    assert recording.end_ns == 70

    recording.save(tmp_path / "run.tprof")
    for each in (recording, Recording.open(tmp_path / "run.tprof")):
        assert [each.event_name(int(row)) for row in each.devices["event"]] == ["early", "late"]
        assert each.devices["grid"].tolist() == [[1, 2, 3], [7, 8, 9]]
        assert each.counters["time_ns"].tolist() == [15, 55]
        assert each.counters["value"].tolist() == [-2.5, 1.5]
        assert each.event_name(int(each.counters["event"][1])) == "late"
        assert {(each.name(c["name"]), each.overload_name(c["name"])) for c in each.counters} == {
            ("load", "cpu")
        }
        assert each.event_name(int(each.memory["event"][0])) == "early"
        assert (each.memory["size_bytes"][0], each.memory["address"][0]) == (-512, 1 << 63)
        assert not each.devices.flags.writeable


@pytest.mark.parametrize(
    ("table", "dtype", "field", "value"),
    [
        ("devices", DEVICE_DTYPE, "event", 2),
        ("counters", COUNTER_DTYPE, "event", 2),
        ("counters", COUNTER_DTYPE, "event", -2),
        ("counters", COUNTER_DTYPE, "track", 1),
        ("counters", COUNTER_DTYPE, "name", 99),
        ("memory", MEMORY_DTYPE, "event", 2),
        ("memory", MEMORY_DTYPE, "track", 1),
        ("memory", MEMORY_DTYPE, "time_ns", 1 << 62),
    ],
)
def test_rows_of_what_is_not_there_are_refused(
    table: str, dtype: np.dtype[np.void], field: str, value: int
) -> None:
    records = np.zeros(1, dtype=dtype)
    records[field] = value
    with pytest.raises(ValueError, match=r"."):
        getattr(builder_with_late_event_first(), f"add_{table}")(records)


def test_records_of_another_table_are_refused() -> None:
    with pytest.raises(ValueError, match="another table"):
        builder_with_late_event_first().add_devices(np.zeros(1, dtype=MEMORY_DTYPE))


SLICES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 30), st.booleans()), max_size=25)


@given(SLICES, st.integers(0, 5), st.integers(0, 20))
def test_mending_only_shortens_and_keeps_the_order_of_rows(
    slices: list[tuple[int, int, bool]], rounding_ns: int, stream_ns: int
) -> None:
    builder = RecordingBuilder()
    thread = builder.add_track("main")
    stream = builder.add_track("stream", TrackKind.STREAM)
    for number, (start, duration, on_stream) in enumerate(slices):
        track, kind = (stream, EventKind.KERNEL) if on_stream else (thread, EventKind.OP)
        builder.add_event(str(number), start, start + duration, track=track, kind=kind)
    recording, counts = builder.finish_mended(rounding_ns=rounding_ns, stream_ns=stream_ns)
    columns = recording.events
    keys = list(
        zip(columns.track.tolist(), columns.start_ns.tolist(), (-columns.end_ns).tolist(), strict=True)
    )
    assert keys == sorted(keys)
    shortened = 0
    for row in range(len(recording)):
        start, duration, _ = slices[int(recording.event_name(row))]
        assert columns.start_ns[row] == start
        assert start <= columns.end_ns[row] <= start + duration
        shortened += columns.end_ns[row] < start + duration
    assert shortened <= counts.rounded + counts.overflowed
    assert bool(shortened) <= bool(counts.rounded + counts.overflowed)
