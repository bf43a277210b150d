"""Pairs and links in Chrome traces: begins and ends, flows, correlation and external ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from otel_torchprof.recording import EventFlags, LinkType
from tests.support.chrome_traces import Json, complete, import_events, links, row_of, times

LAUNCH, FORWARD_BACKWARD, OTHER = LinkType.LAUNCH, LinkType.FORWARD_BACKWARD, LinkType.OTHER


def mark(ph: str, name: str | None, ts: int, **fields: Any) -> Json:
    return {"ph": ph, "pid": 1, "tid": 1, "ts": ts, **({"name": name} if name else {}), **fields}


def flow(ph: str, flow_id: object, ts: int, cat: str = "ac2g", **fields: Any) -> Json:
    return {"ph": ph, "id": flow_id, "pid": 1, "tid": 1, "ts": ts, "cat": cat, "name": cat, **fields}


def call(ts: int, correlation: int, name: str = "launch") -> Json:
    args = {"correlation": correlation, "cbid": 211}
    return complete(name, ts, 5, cat="cuda_runtime", args=args)


def kernel(ts: int, correlation: int | None, name: str = "kernel", *, external_id: int | None = None) -> Json:
    known = {"stream": 7, "correlation": correlation, "External id": external_id}
    return complete(name, ts, 5, cat="kernel", pid=0, tid=7, args=known)


@pytest.mark.parametrize(
    ("marks", "found", "problems"),
    [
        ([("B", "a", 0), ("B", "b", 1), ("E", "b", 2), ("E", "a", 3)], {"a": (0, 3), "b": (1, 2)}, {}),
        ([("B", "a", 0), ("B", "b", 1), ("E", None, 2), ("E", None, 3)], {"a": (0, 3), "b": (1, 2)}, {}),
        ([("E", "a", 9), ("B", "a", 0)], {"a": (0, 9)}, {}),
        ([("B", "a", 0), ("E", "b", 9)], {"a": (0, 9)}, {"end_of_another_name": 1}),
        ([("E", "a", 1), ("B", "b", 2), ("E", "b", 3)], {"b": (2, 3)}, {"end_without_begin": 1}),
        (
            [("B", "a", 0), ("B", "b", 1), ("E", "x", 2), ("E", "b", 3), ("E", "a", 4)],
            {"a": (0, 4), "b": (1, 3)},
            {"end_without_begin": 1},
        ),
        (
            [("B", "a", 0), ("B", "b", 1), ("E", "a", 9), ("E", "b", 15)],
            {"a": (0, 9), "b": (1, 15)},
            {"end_out_of_order": 1, "crossing_slices": 1},
        ),
    ],
)
def test_begins_and_ends(
    tmp_path: Path,
    marks: list[tuple[str, str | None, int]],
    found: dict[str, tuple[int, int]],
    problems: dict[str, int],
) -> None:
    recording, report = import_events(tmp_path, [mark(*fields) for fields in marks])
    assert times(recording) == {name: (a * 1000, b * 1000) for name, (a, b) in found.items()}
    assert dict(report.problems) == problems


def test_a_begin_without_end_lasts_to_the_end_and_says_so(tmp_path: Path) -> None:
    recording, report = import_events(tmp_path, [mark("B", "open", 1), complete("last", 5, 20)])
    assert times(recording)["open"] == (1_000, 25_000)
    assert recording.events.flags[row_of(recording, "open")] == EventFlags.UNFINISHED
    assert report.problems == {"begin_without_end": 1}


def test_asynchronous_events_pair_by_id_across_threads(tmp_path: Path) -> None:
    fields = {"cat": "net"}
    recording, report = import_events(
        tmp_path,
        [
            mark("b", "first", 0, id="0x1", **fields),
            mark("b", "second", 1, id="0x2", **fields),
            mark("n", "note", 2, id="0x1", **fields),
            mark("e", "first", 9, id="0x1", **fields),
            mark("e", "second", 5, id="0x2", tid=2, **fields),
        ],
    )
    assert times(recording) == {"first": (0, 9_000), "second": (1_000, 5_000), "note": (2_000, 2_000)}
    flags = {recording.event_name(row): recording.events.flags[row] for row in range(3)}
    assert flags == {
        "first": EventFlags.ASYNC,
        "second": EventFlags.ASYNC | EventFlags.OTHER_THREAD,
        "note": EventFlags.ASYNC | EventFlags.INSTANT,
    }
    second = row_of(recording, "second")
    assert recording.tracks[recording.events.end_track[second]].thread_id == 2
    assert not report.problems


def test_a_kernel_is_linked_to_the_call_with_its_correlation_id(tmp_path: Path) -> None:
    events = [call(0, 5), kernel(10, 5), flow("s", 5, 0), flow("f", 5, 10, pid=0, tid=7, bp="e")]
    recording, report = import_events(tmp_path, events)
    assert links(recording) == [("launch", "kernel", LAUNCH)]
    assert (report.counts["launches_linked"], report.counts["kernels_linked"]) == (1, 1)
    assert not report.problems


def test_a_correlation_id_used_twice_means_the_call_before(tmp_path: Path) -> None:
    events = [call(0, 5, "first"), call(100, 5, "second"), kernel(50, 5, "a"), kernel(110, 5, "b")]
    recording, report = import_events(tmp_path, events)
    assert links(recording) == [("first", "a", LAUNCH), ("second", "b", LAUNCH)]
    assert report.problems == {"correlation_id_used_twice": 2}


def test_a_flow_links_where_correlation_ids_are_missing(tmp_path: Path) -> None:
    launch = complete("launch", 0, 5, cat="cuda_runtime")
    events = [complete("op", 0, 9), launch, kernel(10, None), flow("s", 1, 0), flow("f", 1, 10, pid=0, tid=7)]
    recording, report = import_events(tmp_path, events)
    assert links(recording) == [("launch", "kernel", LAUNCH)]
    assert not report.problems


def test_an_external_id_links_to_the_op_where_nothing_else_does(tmp_path: Path) -> None:
    events = [complete("op", 0, 9, args={"External id": 3}), kernel(10, 77, external_id=3)]
    recording, report = import_events(tmp_path, events)
    assert links(recording) == [("op", "kernel", LAUNCH)]
    assert report.counts["launches_linked_by_external_id"] == 1


def test_orphans_are_counted_and_nothing_is_invented(tmp_path: Path) -> None:
    events = [kernel(10, 9), call(0, 5), flow("f", 9, 10, pid=0, tid=7), flow("s", 5, 0), flow("s", 6, 1)]
    recording, report = import_events(tmp_path, events)
    assert links(recording) == []
    assert report.problems == {
        "flow_end_without_start": 1,
        "flow_start_without_end": 2,
        "launch_not_found": 1,
    }


def forward_and_backward(sequence: int | None) -> list[Json]:
    forward = {"Sequence number": sequence, "Fwd thread id": 0}
    backward = {"Sequence number": sequence, "Fwd thread id": 1}
    return [
        complete("forward", 0, 5, args=forward),
        complete("backward", 10, 5, tid=2, args=backward),
        flow("s", 1, 0, "fwdbwd"),
        flow("f", 1, 10, "fwdbwd", tid=2, bp="e"),
    ]


def test_backward_links_follow_from_sequence_numbers(tmp_path: Path) -> None:
    recording, _ = import_events(tmp_path, forward_and_backward(7))
    assert links(recording) == []
    backward, forward = recording.links.forward_backward_links()
    assert [recording.event_name(int(row)) for row in (*backward, *forward)] == ["backward", "forward"]
    assert recording.tracks[0].torch_thread_id == 1


def test_backward_links_come_from_flows_where_there_are_no_numbers(tmp_path: Path) -> None:
    recording, _ = import_events(tmp_path, forward_and_backward(None))
    assert links(recording) == [("backward", "forward", FORWARD_BACKWARD)]


def test_other_flows_link_the_slices_they_are_bound_to(tmp_path: Path) -> None:
    events = [complete("a", 0, 9), complete("inner", 2, 2), complete("b", 20, 5), flow("s", "x", 3, "mine")]
    events += [flow("f", "x", 20, "mine"), flow("s", "y", 90, "mine"), flow("f", "y", 20, "mine")]
    recording, report = import_events(tmp_path, events)
    assert links(recording) == [("inner", "b", OTHER)]
    assert report.problems == {"flow_without_slice": 1}


def test_many_ends_of_other_names_cost_no_more_than_their_number(tmp_path: Path) -> None:
    count = 20_000
    begins = [mark("B", f"begin {n}", n) for n in range(count)]
    ends = [mark("E", f"end {n}", count + n) for n in range(count)]
    recording, report = import_events(tmp_path, begins + ends)
    assert len(recording) == count
    assert report.problems == {"end_of_another_name": count}
