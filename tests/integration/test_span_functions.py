"""`span` on functions: plain ones, generators, coroutines and asynchronous generators."""

from __future__ import annotations

import asyncio
import gc
import inspect
import types
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
import torch

from otel_torchprof import span
from otel_torchprof.exporters.chrome import export
from tests.support.chrome_rules import broken_rules, read_strictly
from tests.support.recorded_ops import names_of, nesting_of, ops_of, record
from tests.support.threads import run_in_threads


class TestOnAFunction:
    def test_is_a_scope_for_each_call(self) -> None:
        @span("called")
        def double(value: int, *, plus: int = 0) -> int:
            """Doubles."""
            return 2 * value + plus if value < 8 else double(4, plus=plus)

        assert (double.__name__, double.__doc__) == ("double", "Doubles.")
        recording = record(lambda: [double(3), double(8, plus=1)])
        assert nesting_of(recording) == [("called", None), ("called", None), ("called", "called")]
        assert double(8, plus=1) == 9

    def test_works_on_methods(self) -> None:
        class Model:
            @span("method")
            def method(self) -> str:
                return type(self).__name__

            @classmethod
            @span("of the class")
            def of_class(cls) -> str:
                return cls.__name__

        assert names_of(record(lambda: (Model().method(), Model.of_class()))) == {
            "method": 1,
            "of the class": 1,
        }

    @pytest.mark.parametrize("wrong", [3, dict, classmethod(print)])
    def test_decorates_functions_only(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match=r"span\('x'\) decorates functions, not .*: put it on a method"):
            span("x")(wrong)


class TestOnAGenerator:
    def test_is_a_scope_while_it_runs(self) -> None:
        @span("generator")
        def numbers() -> Iterator[int]:
            torch.ones(1)
            yield 1
            torch.zeros(1)
            yield 2

        def work() -> None:
            for _ in numbers():
                torch.rand(1)

        recording = record(work)
        inside = [pair for pair in nesting_of(recording) if pair[0] in ("aten::ones", "aten::zeros")]
        assert inside == [("aten::ones", "generator"), ("aten::zeros", "generator")]
        assert ("aten::rand", None) in nesting_of(recording)
        assert names_of(recording)["generator"] == 3
        assert inspect.isgeneratorfunction(numbers)

    def test_passes_values_both_ways(self) -> None:
        def echo(first: int) -> Any:
            got: list[Any] = []
            try:
                while True:
                    got.append((yield first + len(got)))
            except ValueError as error:
                got.append(error.args[0])
                yield got
            return "end"

        assert _conversation(span("echo")(echo)) == _conversation(echo)

    def test_raises_as_it_would_alone(self) -> None:
        def fails() -> Iterator[int]:
            yield 1
            raise LookupError("lost")

        def works() -> None:
            with pytest.raises(LookupError, match="lost"):
                list(span("fails")(fails)())

        recording = record(works)
        assert names_of(recording) == {"fails": 2}
        assert not any(op.flags for op in ops_of(recording))

    def test_closed_early_cleans_up_inside_a_scope(self) -> None:
        @span("closed")
        def forever() -> Iterator[int]:
            try:
                while True:
                    yield 1
            finally:
                torch.ones(1)

        def work() -> None:
            generator = forever()
            next(generator)
            generator.close()  # type: ignore[attr-defined]

        recording = record(work)
        assert [pair for pair in nesting_of(recording) if pair[1] is None] == [("closed", None)] * 2
        assert ("aten::ones", "closed") in nesting_of(recording)

    def test_never_left_open_by_what_is_dropped(self) -> None:
        @span("dropped")
        def forever() -> Iterator[int]:
            while True:
                yield 1

        recording = record(lambda: next(forever()))
        gc.collect()
        assert not any(op.flags for op in ops_of(recording))

    def test_keeps_no_value_alive(self) -> None:
        class Batch:
            pass

        @span("batches")
        def batches() -> Iterator[Batch]:
            yield Batch()
            yield Batch()

        generator = batches()
        batch = weakref.ref(next(generator))
        assert batch() is None

    def test_may_go_on_on_another_thread(self) -> None:
        @span("moved")
        def numbers() -> Iterator[int]:
            yield 1
            yield 2

        generator = numbers()

        def work() -> None:
            next(generator)
            run_in_threads(lambda: next(generator))

        recording = record(work)
        assert names_of(recording) == {"moved": 2}
        assert sorted(int(track) for track in recording.events.track) == [0, 1]
        assert not any(op.flags for op in ops_of(recording))

    def test_that_can_be_awaited_still_can(self) -> None:
        @span("awaited")
        @types.coroutine
        def older() -> Any:
            yield
            return 5

        async def main() -> int:
            return await older()  # type: ignore[no-any-return]

        assert asyncio.run(main()) == 5


class TestOnACoroutine:
    def test_is_suspended_with_it(self) -> None:
        turn: list[asyncio.Event] = []

        @span("task")
        async def task(own: int) -> int:
            for _ in range(3):
                await turn[own].wait()
                turn[own].clear()
                torch.ones(1)
                turn[1 - own].set()
            return own

        async def main() -> tuple[int, int]:
            turn[:] = [asyncio.Event(), asyncio.Event()]
            turn[0].set()
            return await asyncio.gather(task(0), task(1))

        results: list[int] = []
        recording = record(lambda: results.extend(asyncio.run(main())))
        assert results == [0, 1]
        assert asyncio.iscoroutinefunction(task)
        around = {parent for name, parent in nesting_of(recording) if name == "aten::ones"}
        assert around == {"task"}
        # Never one inside the other, though both were under way all the time.
        assert {parent for name, parent in nesting_of(recording) if name == "task"} == {None}

    def test_ends_with_cancellation(self) -> None:
        @span("cancelled")
        async def sleeper(started: asyncio.Event) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            finally:
                torch.ones(1)

        async def main() -> bool:
            started = asyncio.Event()
            task = asyncio.create_task(sleeper(started))
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return task.cancelled()

        results: list[bool] = []
        recording = record(lambda: results.append(asyncio.run(main())))
        assert results == [True]
        assert names_of(recording)["cancelled"] == 2
        assert ("aten::ones", "cancelled") in nesting_of(recording)
        assert not any(op.flags for op in ops_of(recording))

    def test_as_a_block_of_interleaved_tasks_makes_a_trace_without_crossings(self, tmp_path: Any) -> None:
        async def task(own: int, turn: list[asyncio.Event]) -> None:
            with span(f"task {own}"):
                for _ in range(2):
                    await turn[own].wait()
                    turn[own].clear()
                    turn[1 - own].set()

        async def main() -> None:
            turn = [asyncio.Event(), asyncio.Event()]
            turn[0].set()
            await asyncio.gather(task(0, turn), task(1, turn))

        recording = record(lambda: asyncio.run(main()))
        assert names_of(recording) == {"task 0": 1, "task 1": 1}
        assert recording.drops == {}
        assert all(self_ns >= 0 for self_ns in recording.tree().self_ns)
        path = tmp_path / "trace.json"
        export(recording, path)
        assert broken_rules(read_strictly(path)) == []

    def test_of_an_asynchronous_generator_passes_everything_on(self) -> None:
        async def echo(first: int) -> AsyncIterator[Any]:
            got: list[Any] = []
            try:
                while True:
                    got.append((yield first + len(got)))
                    await asyncio.sleep(0)
            except ValueError as error:
                got.append(error.args[0])
                yield got

        decorated = span("echo")(echo)
        assert inspect.isasyncgenfunction(decorated)
        assert asyncio.run(_async_conversation(decorated)) == asyncio.run(_async_conversation(echo))

    def test_of_an_asynchronous_generator_closes_inside_a_scope(self) -> None:
        @span("stream")
        async def stream() -> AsyncIterator[int]:
            try:
                while True:
                    yield 1
            finally:
                torch.ones(1)

        async def main() -> None:
            generator = stream()
            await generator.__anext__()
            await generator.aclose()  # type: ignore[attr-defined]

        recording = record(lambda: asyncio.run(main()))
        assert names_of(recording)["stream"] == 2
        assert ("aten::ones", "stream") in nesting_of(recording)
        assert not any(op.flags for op in ops_of(recording))


def _conversation(function: Callable[[int], Any]) -> list[Any]:
    generator = function(10)
    said = [next(generator), generator.send("a"), generator.send("b"), generator.throw(ValueError("c"))]
    with pytest.raises(StopIteration) as end:
        next(generator)
    with pytest.raises(StopIteration):
        next(generator)
    return [*said, end.value.value]


async def _async_conversation(function: Callable[[int], Any]) -> list[Any]:
    generator = function(10)
    said = [
        await generator.__anext__(),
        await generator.asend("a"),
        await generator.asend("b"),
        await generator.athrow(ValueError("c")),
    ]
    with pytest.raises(StopAsyncIteration):
        await generator.__anext__()
    return said
