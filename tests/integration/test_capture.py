"""Captures: all threads, several at once, torch.profiler beside them, scopes of all kinds."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator,no-untyped-call"

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import threading
import weakref
from collections.abc import Generator, Iterator
from pathlib import Path

import psutil
import pytest
import torch
from torch.profiler import record_function

from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.step_details import StepDetails
from otel_torchprof.recording import EventFlags, Recording
from otel_torchprof.version import __version__
from tests.support.recorded_ops import USER_SCOPE, kineto_events, names_of, ops_of, record


@pytest.fixture
def capture() -> Iterator[Capture]:
    capture = Capture()
    capture.start()
    yield capture
    capture.halt()


def test_nothing_is_recorded_before_start_and_after_stop() -> None:
    capture = Capture()
    torch.zeros(1)
    assert not capture.active
    capture.start()
    assert capture.active
    torch.ones(1)
    recording = capture.stop()
    assert not capture.active
    torch.zeros(1)
    assert names_of(recording) == {"aten::ones": 1, "aten::empty": 1, "aten::fill_": 1}
    assert len(capture.stop()) == len(recording)


def test_a_capture_records_once(capture: Capture) -> None:
    with pytest.raises(RuntimeError, match="records once: make another"):
        capture.start()


def test_a_capture_that_was_never_started_stops() -> None:
    assert len(Capture().stop()) == 0


def test_captures_at_the_same_time_all_see_their_events() -> None:
    captures = [
        Capture(options=CaptureOptions(record_shapes=shapes)) for shapes in (False, True, False, True)
    ]
    for number, capture in enumerate(captures):
        capture.start()
        torch.full((1,), number)
    with pytest.raises(RuntimeError):
        Capture().start()  # a fifth
    recordings = []
    for capture in captures:
        recordings.append(capture.stop())
        torch.ones(1)
    for number, recording in enumerate(recordings):
        # Each saw what happened from its own start to its own stop.
        assert names_of(recording)["aten::full"] == 4 - number
        assert names_of(recording)["aten::ones"] == number
        assert recording.drops == {}
    capture = Capture()
    capture.start()  # the slots are free again
    capture.stop()


def test_threads_bear_their_python_names() -> None:
    recorded = threading.Barrier(2)
    stopped = threading.Event()

    def work() -> None:
        torch.ones(1)
        recorded.wait()
        stopped.wait()

    worker = threading.Thread(target=work, name="é" * 30, daemon=True)

    def both() -> None:
        worker.start()
        torch.ones(1)
        recorded.wait()

    recording = record(both)
    stopped.set()
    worker.join()
    assert {track.name for track in recording.tracks} == {"MainThread", "é" * 19}


def test_what_the_recording_says_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.setenv("SECRET_TOKEN", "do-not-record-me")
    options = CaptureOptions(record_shapes=True)
    capture = Capture(options=options, metadata={"model": "tiny"}, run_id="run-7")
    capture.start()
    torch.ones(1)
    recording = capture.stop()
    assert recording.metadata["run_id"] == "run-7"
    assert (recording.metadata["rank"], recording.metadata["world_size"]) == (1, 4)
    assert recording.metadata["torch_version"] == torch.__version__
    assert recording.metadata["package_version"] == __version__
    assert recording.metadata["options"]["record_shapes"] is True
    assert recording.metadata["model"] == "tiny"
    assert "do-not-record-me" not in json.dumps(dict(recording.metadata))


def test_metadata_that_is_not_json_is_refused_at_once() -> None:
    with pytest.raises(TypeError):
        Capture(metadata={"model": object()})
    with pytest.raises(ValueError, match="JSON"):
        Capture(metadata={"loss": float("nan")})


def test_all_threads_also_older_ones() -> None:
    threads = 32
    begin, done = threading.Barrier(threads + 1), threading.Barrier(threads + 1)

    def run() -> None:
        torch.ones(1)  # torch knows the thread before the capture begins
        begin.wait()
        begin.wait()
        for _ in range(50):
            torch.zeros(1)
        done.wait()

    workers = [threading.Thread(target=run) for _ in range(threads)]
    for worker in workers:
        worker.start()
    begin.wait()
    capture = Capture()
    capture.start()
    begin.wait()
    done.wait()
    recording = capture.stop()
    for worker in workers:
        worker.join()
    zeros = [op for op in ops_of(recording) if op.name == "aten::zeros"]
    assert len(zeros) == threads * 50
    assert len({op.thread for op in zeros}) == threads
    assert recording.drops == {}
    assert all(op.end_ns >= op.start_ns for op in zeros)


def test_start_and_stop_while_threads_run_ops() -> None:
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            torch.zeros(1)

    workers = [threading.Thread(target=run) for _ in range(4)]
    for worker in workers:
        worker.start()
    try:
        for _ in range(20):
            recording = record(lambda: torch.full((2,), 1.0))
            assert names_of(recording)["aten::full"] == 1
            assert all(op.end_ns >= op.start_ns for op in ops_of(recording))
    finally:
        stop.set()
        for worker in workers:
            worker.join()


def test_a_hundred_captures_leave_nothing_behind(tmp_path: Path) -> None:
    process = psutil.Process()

    def run(number: int) -> None:
        recording = record(lambda: torch.ones(1), path=tmp_path / f"{number}.tprof", record_shapes=True)
        assert names_of(recording)["aten::ones"] == 1

    for number in range(10):
        run(number)
    gc.collect()
    files, threads, maps = process.num_fds(), process.num_threads(), len(process.memory_maps(grouped=False))
    for number in range(100):
        run(number)
    gc.collect()
    assert process.num_fds() == files
    assert process.num_threads() == threads
    assert len(process.memory_maps(grouped=False)) < maps + 50


def test_a_dropped_capture_stops_and_its_file_is_complete(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "dropped.tprof")
    gone = weakref.ref(capture)
    capture.start()
    torch.ones(1)
    del capture
    gc.collect()
    assert gone() is None
    recording = Recording.open(tmp_path / "dropped.tprof")
    assert recording.stopped
    assert names_of(recording)["aten::ones"] == 1


def test_the_file_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "live.tprof")
    capture.start()
    torch.ones(1)
    live = Recording.open(tmp_path / "live.tprof")
    capture.stop()
    assert not live.stopped
    assert names_of(live)["aten::ones"] == 1
    assert live.metadata["torch_version"] == torch.__version__
    assert (tmp_path / "live.tprof").stat().st_mode & 0o777 == 0o600


def test_a_path_that_cannot_be_written(tmp_path: Path) -> None:
    capture = Capture(tmp_path / "no such folder" / "run.tprof")
    with pytest.raises(OSError, match="no such folder"):
        capture.start()
    assert not capture.active
    assert len(capture.stop()) == 0


def test_user_scopes_come_as_they_are() -> None:
    def work() -> None:
        with record_function('quoted "name" \\ \t é', "arguments"):
            torch.ones(1)
        optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
        optimizer.step()
        for _ in torch.utils.data.DataLoader([1.0, 2.0]):
            pass

    users = [op.name for op in ops_of(record(work)) if op.scope == USER_SCOPE]
    assert users[0] == 'quoted "name" \\ \t é'
    assert "Optimizer.step#SGD.step" in users
    assert users.count("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__") == 3


def test_an_exception_through_a_user_scope() -> None:
    def work() -> None:
        with contextlib.suppress(ZeroDivisionError), record_function("fails"):
            torch.ones(1)
            raise ZeroDivisionError
        torch.zeros(1)

    ops = {op.name: op for op in ops_of(record(work))}
    assert not ops["fails"].flags & EventFlags.UNFINISHED
    assert ops["fails"].start_ns <= ops["aten::ones"].start_ns
    assert ops["aten::ones"].end_ns <= ops["fails"].end_ns <= ops["aten::zeros"].start_ns


def test_a_failing_op_ends() -> None:
    def work() -> None:
        with pytest.raises(RuntimeError):
            torch.mm(torch.ones(2, 3), torch.ones(2, 3))

    (failed,) = (op for op in ops_of(record(work)) if op.name == "aten::mm")
    assert not failed.flags & EventFlags.UNFINISHED


def test_a_generator_that_holds_a_user_scope() -> None:
    def generate() -> Generator[int, None, None]:
        with record_function("held by a generator"):
            yield 1
            torch.ones(1)
            yield 2

    def work() -> None:
        held = generate()
        next(held)
        with record_function("around the second half"):
            next(held)
            held.close()
        torch.zeros(1)

    ops = {op.name: op for op in ops_of(record(work))}
    held, around = ops["held by a generator"], ops["around the second half"]
    assert held.start_ns < around.start_ns < held.end_ns < around.end_ns < ops["aten::zeros"].start_ns
    assert not (held.flags | around.flags) & EventFlags.UNFINISHED


def test_coroutines_that_hold_user_scopes() -> None:
    async def hold(name: str, mine: asyncio.Event, other: asyncio.Event) -> None:
        with record_function(name):
            mine.set()
            await other.wait()

    async def interleave() -> None:
        first, second = asyncio.Event(), asyncio.Event()
        await asyncio.gather(hold("first", first, second), hold("second", second, first))

    ops = {op.name: op for op in ops_of(record(lambda: asyncio.run(interleave())))}
    assert ops["first"].start_ns < ops["second"].start_ns
    assert ops["second"].start_ns < min(ops["first"].end_ns, ops["second"].end_ns)
    assert not (ops["first"].flags | ops["second"].flags) & EventFlags.UNFINISHED


def test_a_future_ends_its_scope_on_another_thread() -> None:
    def work() -> None:
        pending: torch.futures.Future[int] = torch.futures.Future()
        with record_function("pending") as scope:
            done = scope._call_end_callbacks_on_future(pending)
        torch.ones(1)
        thread = threading.Thread(target=lambda: (torch.zeros(1), pending.set_result(1)))
        thread.start()
        thread.join()
        done.wait()

    ops = {op.name: op for op in ops_of(record(work))}
    assert ops["pending"].flags & EventFlags.OTHER_THREAD
    assert ops["pending"].end_ns >= ops["aten::zeros"].end_ns
    assert ops["pending"].thread == ops["aten::ones"].thread != ops["aten::zeros"].thread


def test_scripted_record_function() -> None:
    @torch.jit.script
    def scripted(x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.profiler.record_function("in script"):
            return x + 1

    assert names_of(record(lambda: scripted(torch.ones(1))))["in script"] == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions_run(backend: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: torch.sin(x) + 1, backend=backend, fullgraph=True)
    result = []
    recording = record(lambda: result.append(compiled(torch.zeros(2))))
    assert result[0].tolist() == [1.0, 1.0]
    assert names_of(recording)["aten::sin"] >= 1


def work_for_both() -> None:
    x = torch.ones(3, requires_grad=True)
    with record_function("both"):
        (x * 2).sum().backward()


def kineto_names(raw: list[object]) -> list[str]:
    return sorted(event.name() for event in raw)  # type: ignore[attr-defined]


def test_torch_profiler_before_during_and_after() -> None:
    before = kineto_names(kineto_events(work_for_both))
    during: list[object] = []
    recording = record(lambda: during.extend(kineto_events(work_for_both)))
    after = kineto_names(kineto_events(work_for_both))
    assert before == kineto_names(during) == after
    assert names_of(recording)["aten::mul"] == before.count("aten::mul") == 2


def test_a_capture_inside_torch_profiler() -> None:
    alone = kineto_names(kineto_events(work_for_both))
    recordings: list[Recording] = []
    raw = kineto_events(lambda: recordings.append(record(work_for_both)))
    assert kineto_names(raw) == alone
    assert names_of(recordings[0])["both"] == 1


def test_steps_are_recorded_with_their_context(capture: Capture) -> None:
    context = bytes(range(1, 25))
    capture.begin_step(7, StepDetails(1, 4, context, context_trace_flags=1, links=context * 2))
    torch.ones(1)
    capture.begin_step(8, StepDetails(flags=4))
    capture.end_step()
    first, second = capture.stop().steps
    assert (first.number, second.number) == (7, 8)
    assert (first.context.trace_id, first.context.span_id) == (context[:16], context[16:])
    assert len(first.links) == 2
    assert first.start_ns <= first.end_ns <= second.start_ns <= second.end_ns
    capture.begin_step(9)  # after stop: nothing
    capture.end_step()
