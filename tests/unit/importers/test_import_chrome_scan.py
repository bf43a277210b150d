"""What native code makes of sound JSON, in whatever pieces it comes, against what Python's parser says."""

from __future__ import annotations

import gzip
import json
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from otel_torchprof._native import core
from otel_torchprof.importers import ImportLimits, UnreadableInputError, load
from otel_torchprof.importers.chrome.categories import CATEGORY_CLASSES
from tests.support.chrome_traces import complete, import_events, import_text, times

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ("ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "args", "other")
ANY_EVENTS = st.lists(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8), max_size=8)


def scan(text: bytes, piece_bytes: int) -> core.TraceScanner:
    scanner = core.TraceScanner({name: int(kind) for name, kind in CATEGORY_CLASSES.items()}, ["a"])
    for begin in range(0, len(text), piece_bytes):
        scanner.feed(text[begin : begin + piece_bytes])
    scanner.finish()
    return scanner


def encoded(value: Any, ascii_only: bool, indent: int | None) -> bytes:
    return json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "surrogatepass")


def is_portable(text: bytes) -> bool:
    """Whether a strict parser takes it: lone surrogates are neither UTF-8 nor sound escapes."""
    try:
        return text.decode("utf-8") is not None and b"\\ud" not in text.lower()
    except UnicodeDecodeError:
        return False


@given(ANY_EVENTS, st.booleans(), st.sampled_from((None, 1)), st.integers(1, 50))
def test_every_sound_event_is_there_once(
    events: list[dict[str, Any]], ascii_only: bool, indent: int | None, piece_bytes: int
) -> None:
    text = encoded(events, ascii_only, indent)
    if not is_portable(text):
        return
    scanner = scan(text, piece_bytes)
    assert scanner.state == core.TraceState.WHOLE
    block = scanner.take()
    in_columns = len(block.start_ns) + len(block.flow_id) + len(block.memory_records) // 64
    others = [json.loads(other) for other in block.others]
    assert in_columns + len(others) == len(events)
    for other in others:
        assert other in events


LABELS = st.text(max_size=6).filter(lambda text: is_portable(text.encode("utf-8", "replace")))
DECIMALS = st.decimals(min_value=-(10**15), max_value=10**15, places=5) | st.integers(-(10**15), 10**15).map(
    Decimal
)


@given(st.lists(st.tuples(LABELS, DECIMALS, st.decimals(0, 10**9, places=4)), min_size=1, max_size=6))
@example([("a", Decimal("3.0005"), Decimal("2.0005")), ("b", Decimal("3.0015"), Decimal(0))])
def test_names_and_times_are_those_of_the_text(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, Decimal, Decimal]]
) -> None:
    texts = [
        f'{{"ph":"X","cat":"x","name":{json.dumps(name)},"pid":1,"tid":{number},"ts":{start:f},"dur":{dur:f}}}'
        for number, (name, start, dur) in enumerate(events)
    ]
    recording, report = import_text(tmp_path_factory.mktemp("times"), f"[{','.join(texts)}]")

    def ns(microseconds: Decimal) -> int:
        return int((microseconds * 1000).to_integral_value(ROUND_HALF_EVEN))

    expected = [(name, ns(start), ns(start) + ns(dur)) for name, start, dur in events if ns(start) != 0]
    columns = recording.events
    found = [
        (recording.event_name(row), int(columns.start_ns[row]), int(columns.end_ns[row]))
        for row in range(len(recording))
        if columns.start_ns[row] != 0  # which is no time among times of another order
    ]
    assert sorted(found) == sorted(expected)
    assert not set(report.problems) - {"zero_time"}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=8).map(lambda name: f"my {name}"), VALUES, max_size=4))
def test_arguments_without_a_place_are_those_of_the_text(
    tmp_path_factory: pytest.TempPathFactory, arguments: dict[str, Any]
) -> None:
    text = encoded([complete("a", 1, 1, args={**arguments, "Ev Idx": 7, "correlation": 3})], True, None)
    if not is_portable(text):
        return
    recording, _ = import_text(tmp_path_factory.mktemp("arguments"), text)
    assert recording.arguments_of(0) == arguments


def test_of_what_is_there_twice_the_last_counts(tmp_path: Path) -> None:
    first, last = complete("first", 0, 1), complete("last", 5, 1)
    text = f'{{"traceEvents":[{json.dumps(first)}],"traceEvents":[{json.dumps(last)[:-1]},"dur":2}}]}}'
    recording, report = import_text(tmp_path, text)
    assert times(recording) == {"last": (5_000, 7_000)}
    assert not report.problems


def test_an_event_longer_than_many_pieces_is_read(tmp_path: Path) -> None:
    name = "x" * 5_000_000
    recording, report = import_events(tmp_path, [complete(name, 0, 1), complete("b", 2, 1)])
    assert report.problems == {"name_cut": 1}
    assert len(recording) == 2
    assert len(recording.event_name(0)) == 65_536


def test_a_compressed_trace_is_bounded_while_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b'[{"name":"' + b" " * (80 << 20)))
    with pytest.raises(UnreadableInputError, match="unpacks to more than 250 times its size"):
        load(path)
    with pytest.raises(UnreadableInputError, match="holds more than 1,000 bytes"):
        load(path, limits=ImportLimits(max_size_bytes=1000))


@pytest.mark.parametrize("depth", [900, 2_000])
def test_nesting_within_reason_is_no_problem(tmp_path: Path, depth: int) -> None:
    text = '[{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":1,"x":%s},%s]'
    deep = "[" * depth + "]" * depth
    recording, report = import_text(tmp_path, text % (deep, json.dumps(complete("b", 5, 1))))
    names = {recording.event_name(row) for row in range(len(recording))}
    assert names == ({"a", "b"} if depth < 960 else {"b"})
    assert bool(report.problems["event_nested_too_deeply"]) == (depth >= 960)
