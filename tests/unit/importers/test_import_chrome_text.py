"""Text that is no sound JSON: every event that is whole is imported, and what was wrong is named."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_torchprof.importers import UnreadableInputError
from tests.support.chrome_traces import complete, import_text, times

A = '{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":5}'
B = '{"ph":"X","name":"b","pid":1,"tid":1,"ts":9,"dur":5}'


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        (f"[{A},{B}]", {}),
        (f'{{"traceEvents":[{A},{B}]}}', {}),
        (f'\ufeff{{"schemaVersion":1,"traceEvents":[{A},{B}],"x":1}}', {}),
        (f"[{A},{B},]", {"malformed_json": 1}),
        (f"[{A},{B},\n", {"malformed_json": 1, "array_not_closed": 1}),
        (f"[{A},{B}", {"malformed_json": 1, "array_not_closed": 1}),
        (f'[{A},{B},{{"ph":"X","na', {"malformed_json": 1, "array_not_closed": 1, "last_event_cut_off": 1}),
        (f'{{"traceEvents":[{A},{B},', {"malformed_json": 1, "array_not_closed": 1}),
        (f'{{"traceEvents":[{A},{B}],}}', {"malformed_json": 1}),
        (f"{A}\n{B}\n", {"malformed_json": 1}),
        (
            f'[{A},{B},{{"ph":"X","name":}}]',
            {"malformed_json": 1, "malformed_event": 1, "events_left_out": 1},
        ),
        (f'[{A},{B},7,"x",null]', {"event_is_no_object": 3, "events_left_out": 3}),
    ],
)
def test_what_is_whole_is_imported(tmp_path: Path, text: str, problems: dict[str, int]) -> None:
    recording, report = import_text(tmp_path, text)
    assert times(recording) == {"a": (0, 5_000), "b": (9_000, 14_000)}
    assert dict(report.problems) == problems


def event(name: bytes = b"x", more: bytes = b"") -> bytes:
    return b'[{"ph":"X","name":"%b","pid":1,"tid":1,"ts":0,"dur":1%b}]' % (name, more)


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        (event(more=b',"args":{"bandwidth":NaN}'), "x", "not_a_number"),
        (event(more=b',"args":{"bandwidth":-Infinity}'), "x", "not_a_number"),
        (event(more=b',"args":{"bandwidth":inf}'), "x", "not_a_number"),
        (event(more=b',"args":{"a":[1,],}'), "x", "trailing_comma"),
        (event(b"C:\\path\\new"), "C:\\path\new", "bad_escape"),
        (event(b"a\tb"), "a\tb", "control_character"),
        (event(b"a\xffb"), "a\ufffdb", "invalid_utf8"),
        (event(b"\\ud800!"), "\ufffd!", "lone_surrogate"),
        (event(b'a"b'), 'a"b', "unescaped_quote"),
        (event(more=b',"args":[1]'), "x", "arguments_are_no_object"),
    ],
)
def test_an_event_that_can_be_mended_is(tmp_path: Path, text: bytes, name: str, problem: str) -> None:
    recording, report = import_text(tmp_path, text)
    assert times(recording) == {name: (0, 1_000)}
    assert report.problems[problem] == 1
    assert not report.problems["events_left_out"]


@pytest.mark.parametrize("where", [b'"args":{"deep":%b}', b'"other":%b'])
def test_deep_nesting_neither_crashes_nor_hides_the_rest(tmp_path: Path, where: bytes) -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    text = b'[{"ph":"X","name":"deep","pid":1,"ts":0,"dur":1,' + where % deep + b"}," + A.encode() + b"]"
    recording, report = import_text(tmp_path, text)
    assert times(recording) == {"a": (0, 5_000)}
    assert report.problems["event_nested_too_deeply"] == 1


def test_an_unescaped_quote_costs_no_other_event(tmp_path: Path) -> None:
    # As Kineto writes record_function('a"b').
    text = '{"traceEvents": [\n  ' + A + ',\n  {\n    "ph": "X", "name": "a" b", "pid": 1, "tid": 1,\n'
    text += '    "ts": 20, "dur": 1\n  },\n  ' + B + "\n]}"
    recording, report = import_text(tmp_path, text)
    assert {"a", "b"} <= set(times(recording))
    assert report.problems["malformed_json"] == 1


def test_the_header_survives_broken_events(tmp_path: Path) -> None:
    base = 10**18
    text = f'{{"baseTimeNanoseconds":{base},"traceEvents":[{A},{{"ts":NaN}}],"record_shapes":1}}'
    recording, _ = import_text(tmp_path, text)
    assert times(recording) == {"a": (base, base + 5_000)}
    assert recording.metadata["kineto"] == {"baseTimeNanoseconds": base, "record_shapes": 1}


SOUND = json.dumps(
    {
        "schemaVersion": 1,
        "traceEvents": [
            complete("op", 0, 9.25, args={"External id": 1, "Input Dims": [[2, 3]], "Input type": ["float"]}),
            complete("launch", 1, 2, cat="cuda_runtime", args={"correlation": 4}),
            complete(
                "k\\é\u2713", 5, 7, cat="kernel", pid=0, tid=7, args={"correlation": 4, "grid": [1, 1, 1]}
            ),
            {"ph": "B", "name": "b", "pid": 1, "tid": 1, "ts": 2},
            {"ph": "C", "name": "c", "pid": 1, "ts": 2, "args": {"x": 1}},
            {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "p"}},
        ],
    }
).encode()


@given(st.integers(0, len(SOUND)))
def test_a_file_cut_off_anywhere(tmp_path_factory: pytest.TempPathFactory, length: int) -> None:
    with suppress(UnreadableInputError):
        import_text(tmp_path_factory.mktemp("cut"), SOUND[:length])


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), max_size=8))
def test_flipped_bytes(tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]) -> None:
    damaged = bytearray(SOUND)
    for place, value in flips:
        damaged[place] = value
    with suppress(UnreadableInputError):
        import_text(tmp_path_factory.mktemp("flipped"), bytes(damaged))


KEYS = ("ph", "name", "cat", "pid", "tid", "ts", "dur", "id", "args")
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
    | st.sampled_from(("X", "B", "E", "b", "e", "s", "f", "C", "M", "i", "[memory]", "kernel", "cpu_op")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
ARGUMENTS = st.dictionaries(
    st.sampled_from(
        ("correlation", "External id", "grid", "stream", "device", "bytes", "Bytes", "Addr", "Input Dims",
         "Input type", "Concrete Inputs", "Input Strides", "Sequence number", "Fwd thread id", "name")
    ),
    ANYTHING,
)  # fmt: skip
EVENTS = st.dictionaries(st.sampled_from(KEYS), ANYTHING) | st.fixed_dictionaries(
    {
        "ph": st.sampled_from(("X", "B", "E", "b", "e", "n", "s", "f", "t", "C", "M", "i")),
        "cat": st.sampled_from(("cpu_op", "kernel", "cuda_runtime", "fwdbwd", "ac2g", "x")),
        "ts": st.integers(-10, 10) | st.floats(allow_nan=True),
        "dur": ANYTHING,
        "args": ARGUMENTS | ANYTHING,
        "name": st.sampled_from(("a", "[memory]", "ProfilerStep#1")),
    }
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(EVENTS, max_size=6) | ANYTHING)
def test_any_json(tmp_path_factory: pytest.TempPathFactory, value: object) -> None:
    with suppress(UnreadableInputError):
        import_text(tmp_path_factory.mktemp("any"), json.dumps(value))
