"""`span` as a block: a user scope of our own, in everything that records, and nothing to the compiler."""

from __future__ import annotations

import inspect
import os
import pickle
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch

from otel_torchprof import ProfilerActivity, profile, span
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.op_counts import OpCounts
from otel_torchprof.recording import Recording
from otel_torchprof.recording.kinds import EventFlags, EventKind
from tests.support.chrome_rules import of_phase, read_strictly
from tests.support.recorded_ops import USER_SCOPE, names_of, nesting_of, ops_of, record
from tests.support.threads import run_in_threads


class TestAsABlock:
    def test_is_recorded_as_torchs_record_function_is(self) -> None:
        def work() -> None:
            with span("ours"):
                torch.ones(1)
            with torch.profiler.record_function("torch's"):
                torch.ones(1)

        recording = record(work)
        rows = {op.name: op for op in ops_of(recording)}
        ours, torchs = rows["ours"], rows["torch's"]
        assert (ours.scope, ours.sequence, ours.thread) == (USER_SCOPE, torchs.sequence, torchs.thread)
        assert (ours.flags, ours.overload) == (torchs.flags, torchs.overload)
        assert recording.events.kind[ours.row] == recording.events.kind[torchs.row] == EventKind.USER
        assert ("aten::ones", "ours") in nesting_of(recording)

    def test_that_comes_first_on_a_thread_leaves_it_torchs_number(self) -> None:
        def work() -> None:
            with span("first"):
                torch.ones(1)

        recording = record(lambda: run_in_threads(work))
        (number,) = {op.thread for op in ops_of(recording)}
        assert number > 0

    def test_lets_exceptions_pass_and_ends_before_them(self) -> None:
        def work() -> None:
            with pytest.raises(KeyError, match="gone"), span("outer"), span("inner"):
                raise KeyError("gone")
            with span("next"):
                pass

        recording = record(work)
        assert nesting_of(recording) == [("outer", None), ("inner", "outer"), ("next", None)]
        assert not any(op.flags for op in ops_of(recording))

    def test_can_be_entered_again_inside_itself(self) -> None:
        def work() -> None:
            again = span("again")
            with again, again, again:
                torch.ones(1)
            with again:
                pass

        recording = record(work)
        assert [pair for pair in nesting_of(recording) if pair[0] == "again"] == [
            ("again", None),
            ("again", "again"),
            ("again", "again"),
            ("again", None),
        ]
        assert recording.drops == {}

    def test_of_several_threads_at_once_ends_on_each(self) -> None:
        shared = span("shared")
        both_inside = threading.Barrier(2)

        def work() -> None:
            with shared:
                both_inside.wait(60)
                torch.ones(1)
                both_inside.wait(60)

        recording = record(lambda: run_in_threads(work, work))
        assert names_of(recording)["shared"] == 2
        assert len({int(track) for track in recording.events.track}) == 2
        assert not any(op.flags for op in ops_of(recording))

    def test_may_end_on_another_thread(self) -> None:
        def work() -> None:
            handed_over = span("handed over")
            handed_over.__enter__()
            run_in_threads(lambda: handed_over.__exit__(None, None, None))
            with span("after"):
                pass

        recording = record(work)
        rows = {op.name: op for op in ops_of(recording)}
        assert rows["handed over"].flags == EventFlags.OTHER_THREAD
        assert ("after", None) in nesting_of(recording)
        assert recording.drops == {}

    def test_entered_by_hand_and_dropped_ends_with_the_last_reference(self) -> None:
        def work() -> None:
            span("dropped").__enter__()
            with span("next"):
                pass

        recording = record(work)
        assert nesting_of(recording) == [("dropped", None), ("next", None)]
        assert not any(op.flags for op in ops_of(recording))

    def test_left_without_being_entered_does_nothing(self) -> None:
        recording = record(lambda: span("never").__exit__(None, None, None))
        assert len(recording) == 0
        assert recording.drops == {}

    def test_under_way_when_a_capture_begins_or_ends_is_cut(self) -> None:
        early, late = span("early"), span("late")
        with early:
            capture = Capture()
            capture.start()
        late.__enter__()
        recording = capture.stop()
        following = Capture()
        following.start()
        late.__exit__(None, None, None)
        assert [(op.name, op.flags) for op in ops_of(recording)] == [("late", EventFlags.UNFINISHED)]
        after = following.stop()
        assert len(after) == 0
        assert after.drops == recording.drops == {}

    def test_is_in_every_capture_that_records(self) -> None:
        outer, inner = Capture(), Capture()
        outer.start()
        with span("of one"):
            inner.start()
            with span("of both"):
                pass
            in_inner = inner.stop()
        assert names_of(in_inner) == {"of both": 1}
        assert names_of(outer.stop()) == {"of one": 1, "of both": 1}

    def test_is_left_out_while_ops_are(self) -> None:
        with profile(activities=[ProfilerActivity.CPU]) as prof:
            prof.toggle_collection_dynamic(False, [ProfilerActivity.CPU])
            with span("left out"):
                pass
            prof.toggle_collection_dynamic(True, [ProfilerActivity.CPU])
            with span("recorded"):
                pass
        assert [event.name for event in prof.events()] == ["recorded"]

    def test_is_nothing_in_a_forked_child(self) -> None:
        capture = Capture()
        capture.start()
        reading, writing = os.pipe()
        with span("of the parent"):
            child = os.fork()
            if child:
                os.close(writing)
        if child == 0:
            try:
                capture = Capture()
                capture.start()
                with span("of the child"):
                    pass
                result = capture.stop()
                os.write(writing, pickle.dumps((dict(names_of(result)), dict(result.drops))))
            finally:
                os._exit(0)
        with os.fdopen(reading, "rb") as pipe:
            assert pickle.loads(pipe.read()) == ({"of the child": 1}, {})
        os.waitpid(child, 0)
        assert names_of(capture.stop()) == {"of the parent": 1}

    def test_is_counted_where_ops_are(self) -> None:
        counts = OpCounts()
        counts.start()
        try:
            with span("counted"):
                torch.ones(1)
            counts.sample(0)
            with span("not counted"):
                pass
        finally:
            counts.stop()
        rows = {(row.name, row.is_user): row for row in counts.collect()}
        scope = rows["counted", True]
        assert scope.calls == 1
        inside_ns = rows["aten::ones", False].total_ns
        assert abs(scope.total_ns - scope.self_ns - inside_ns) <= 1  # each is rounded
        assert ("not counted", True) not in rows

    @pytest.mark.parametrize(
        ("given", "recorded"),
        [
            ('a"b\\c\n', 'a"b\\c\n'),
            ("Größe 🙂", "Größe 🙂"),
            ("cut\0off", "cut"),
            ("lone \udc80", "lone \\udc80"),
            ("", ""),
        ],
    )
    def test_takes_any_name(self, given: str, recorded: str) -> None:
        def work() -> None:
            with span(given):
                pass

        assert names_of(record(work)) == {recorded: 1}

    def test_cuts_names_where_torchs_scopes_are_cut(self) -> None:
        def work(scope: Callable[[str], Any]) -> None:
            with scope("n" * 100_000):
                pass

        assert names_of(record(lambda: work(span))) == names_of(
            record(lambda: work(torch.profiler.record_function))
        )

    def test_wants_a_str(self) -> None:
        with pytest.raises(TypeError, match=r"takes the name of the scope, a str, not 3"):
            span(3)  # type: ignore[arg-type]

    def test_says_what_it_is(self) -> None:
        assert repr(span("it's")) == 'span("it\'s")'
        assert str(inspect.signature(span)) == "(name, /)"

    def test_keeps_nothing_alive(self) -> None:
        class Name(str):
            pass

        name = Name("held")
        held = weakref.ref(name)
        scope = span(name)
        with scope:
            del name
            assert held() is not None
        del scope
        assert held() is None


class TestUnderTheCompiler:
    def test_breaks_no_graph_and_compiles_once(self) -> None:
        @span("decorated")
        def inner(values: torch.Tensor) -> torch.Tensor:
            return values.sin()

        def model(values: torch.Tensor) -> torch.Tensor:
            with span("block"):
                values = inner(values) + 1
            with span("another"):
                return values * 2

        graphs: list[Any] = []

        def backend(graph: Any, _inputs: Any) -> Any:
            graphs.append(graph)
            return graph

        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        values = torch.rand(3)
        expected = model(values)
        assert torch.equal(compiled(values), expected)
        recording = record(lambda: compiled(values))
        assert torch.equal(compiled(values), expected)
        assert len(graphs) == 1
        assert "aten::sin" in names_of(recording)
        assert "block" not in names_of(recording)  # inside a graph there is no Python to run

    def test_around_a_compiled_call_is_recorded(self) -> None:
        compiled = torch.compile(lambda values: values.cos(), backend="eager")
        values = torch.rand(3)
        compiled(values)

        def work() -> None:
            with span("around"):
                compiled(values)

        assert ("aten::cos", "around") in _ancestry(record(work))

    def test_with_a_name_that_changes_compiles_no_more_than_without(self) -> None:
        graphs: list[Any] = []

        def backend(graph: Any, _inputs: Any) -> Any:
            graphs.append(graph)
            return graph

        def model(values: torch.Tensor, name: str) -> torch.Tensor:
            with span(name):
                return values + 1

        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend=backend)
        for name in ("one", "two", "three"):
            compiled(torch.ones(1), name)
        assert len(graphs) == 1


def test_exports_and_averages_have_it(tmp_path: Any) -> None:
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(3):
            with span("phase"):
                torch.ones(1)
    assert {row.key: row.count for row in prof.key_averages()}["phase"] == 3
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(str(path))
    slices = of_phase(read_strictly(path), "X", "user_annotation")
    assert [event["name"] for event in slices if event["name"] == "phase"] == ["phase"] * 3


def _ancestry(recording: Recording) -> set[tuple[str, str]]:
    parents = recording.tree().parent
    pairs = set()
    for row in range(len(recording)):
        above = int(parents[row])
        while above >= 0:
            pairs.add((recording.event_name(row), recording.event_name(above)))
            above = int(parents[above])
    return pairs
