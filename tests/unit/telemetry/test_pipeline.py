"""The export pipeline: never in the way of the training thread, bounded, and done within its time."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest
from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from otel_torchprof.telemetry.counters import ExportCounters, ExportCounts
from otel_torchprof.telemetry.destinations import ExportWork, TimeLeft
from otel_torchprof.telemetry.pipeline import ExportPipeline, max_jitter_s
from otel_torchprof.telemetry.send_result import SendResult
from tests.support.export_work import HandMadeWork

LONG_S = 60.0


class RecordingDestination:
    """Keeps what it is given. While `gate` is closed an export waits; `cancel` opens it unless deaf."""

    def __init__(self, *, deaf: bool = False) -> None:
        self.exported: list[ExportWork] = []
        self.times_left: list[float | None] = []
        self.thread_names: list[str] = []
        self.instrumented: list[bool] = []
        self.started = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        self.closed = 0
        self.result = SendResult(delivered=2)
        self._deaf = deaf

    @property
    def address(self) -> str:
        return "nowhere:4317"

    def export(self, work: ExportWork, time_left: TimeLeft) -> SendResult:
        self.thread_names.append(threading.current_thread().name)
        self.instrumented.append(is_instrumentation_enabled())
        self.started.set()
        self.gate.wait()
        self.times_left.append(time_left())
        self.exported.append(work)
        return self.result

    def cancel(self) -> None:
        if not self._deaf:
            self.gate.set()

    def close(self) -> None:
        self.closed += 1


class FailingDestination(RecordingDestination):
    def export(self, work: ExportWork, time_left: TimeLeft) -> SendResult:
        raise ValueError("a cycle in the tree")

    def close(self) -> None:
        raise OSError("cannot close")


def make_pipeline(
    *destinations: RecordingDestination, **options: float | Callable[[], float]
) -> ExportPipeline:
    return ExportPipeline(destinations, ExportCounters(), **options)  # type: ignore[arg-type]


def make_busy_pipeline(
    destination: RecordingDestination, recordings: int, **options: float | Callable[[], float]
) -> ExportPipeline:
    """With the first of its recordings in progress, which waits for the destination's gate."""
    destination.gate.clear()
    pipeline = make_pipeline(destination, **options)
    for _ in range(recordings):
        pipeline.submit(HandMadeWork())
    assert destination.started.wait(LONG_S)
    return pipeline


def test_work_is_exported_in_order_on_one_thread_of_its_own() -> None:
    destination = RecordingDestination()
    pipeline = make_pipeline(destination)
    work = [HandMadeWork() for _ in range(5)]
    assert all(pipeline.submit(item) for item in work)
    assert pipeline.flush(LONG_S)
    assert destination.exported == work
    assert set(destination.thread_names) == {"otel-torchprof-export"}
    assert pipeline.counters.counts() == ExportCounts(exported_recordings=5)
    assert pipeline.shutdown(LONG_S)


def test_making_a_pipeline_starts_no_thread_and_shutting_it_down_neither() -> None:
    before = threading.active_count()
    destination = RecordingDestination()
    pipeline = make_pipeline(destination)
    assert pipeline.flush(LONG_S)
    assert pipeline.shutdown(LONG_S)
    assert threading.active_count() == before
    assert destination.closed == 1


def test_the_export_thread_ends_with_the_shutdown() -> None:
    pipeline = make_pipeline(RecordingDestination())
    pipeline.submit(HandMadeWork())
    pipeline.shutdown(LONG_S)
    worker = pipeline._worker
    assert worker is not None
    worker.join(LONG_S)
    assert not worker.is_alive()


def test_exporting_is_not_instrumented() -> None:
    destination = RecordingDestination()
    pipeline = make_pipeline(destination)
    pipeline.submit(HandMadeWork())
    pipeline.shutdown(LONG_S)
    assert destination.instrumented == [False]


@pytest.mark.parametrize("limits", [{"max_recordings": 3}, {"max_bytes": 300}])
def test_a_full_queue_drops_the_newest_and_counts_it(
    limits: dict[str, int], caplog: pytest.LogCaptureFixture
) -> None:
    destination = RecordingDestination()
    destination.gate.clear()
    pipeline = make_pipeline(destination, **limits)
    work = [HandMadeWork(size_bytes=100) for _ in range(5)]
    assert [pipeline.submit(item) for item in work] == [True, True, True, False, False]
    destination.gate.set()
    assert pipeline.shutdown(LONG_S)
    assert destination.exported == work[:3]
    assert pipeline.counters.counts().dropped_recordings == {"queue_full": 2}
    assert [record.getMessage() for record in caplog.records] == [
        "otel-torchprof: a recording was not exported (queue_full): 3 are waiting to be sent"
    ]


def test_bytes_are_given_back_when_work_is_done() -> None:
    pipeline = make_pipeline(RecordingDestination(), max_bytes=100)
    for _ in range(3):
        assert pipeline.submit(HandMadeWork(size_bytes=100))
        assert pipeline.flush(LONG_S)
    pipeline.shutdown(LONG_S)


def test_a_recording_larger_than_the_queue_is_taken_when_it_is_alone() -> None:
    pipeline = make_pipeline(RecordingDestination(), max_bytes=100)
    assert pipeline.submit(HandMadeWork(size_bytes=1000))
    assert pipeline.shutdown(LONG_S)
    assert pipeline.counters.counts().exported_recordings == 1


def test_flush_that_is_not_done_in_time_says_so() -> None:
    destination = RecordingDestination()
    destination.gate.clear()
    pipeline = make_pipeline(destination)
    pipeline.submit(HandMadeWork())
    assert not pipeline.flush(0.01)
    destination.gate.set()
    assert pipeline.flush(LONG_S)
    pipeline.shutdown(LONG_S)


def test_shutdown_twice_closes_once_and_later_work_is_dropped() -> None:
    destination = RecordingDestination()
    pipeline = make_pipeline(destination)
    pipeline.submit(HandMadeWork())
    assert pipeline.shutdown(LONG_S)
    assert pipeline.shutdown(LONG_S)
    assert pipeline.flush(LONG_S)
    assert not pipeline.submit(HandMadeWork())
    assert destination.closed == 1
    assert pipeline.counters.counts() == ExportCounts(
        exported_recordings=1, dropped_recordings={"shut_down": 1}
    )


def test_shutdown_cancels_what_is_not_done_in_time_and_drops_the_rest() -> None:
    destination = RecordingDestination()
    pipeline = make_busy_pipeline(destination, 3)
    assert not pipeline.shutdown(0.0)
    # The one in progress ended when it was cancelled and counts its own spans.
    assert pipeline.counters.counts() == ExportCounts(
        exported_recordings=1, dropped_recordings={"shut_down": 2}
    )
    assert destination.times_left == [0.0]


def test_a_destination_that_never_answers_does_not_hold_shutdown_up() -> None:
    destination = RecordingDestination(deaf=True)
    pipeline = make_busy_pipeline(destination, 2)
    assert not pipeline.shutdown(0.0)
    assert not pipeline.shutdown(0.0)
    assert pipeline.counters.counts().dropped_recordings == {"shut_down": 2}, "counted once"
    destination.gate.set()
    assert not pipeline.shutdown(LONG_S), "some were lost, whenever it is asked"


@pytest.mark.parametrize(
    ("results", "deliveries"),
    [
        ([SendResult(delivered=2)], 1),
        ([SendResult(delivered=2), SendResult.dropped("timeout", 2)], 1),  # one place has them all
        ([SendResult(delivered=1, rejected=1)], 0),
        ([SendResult(delivered=1) + SendResult.dropped("timeout", 1)], 0),
        ([SendResult()], 0),  # nothing was to be sent
    ],
)
def test_work_is_told_when_all_its_spans_arrived(results: list[SendResult], deliveries: int) -> None:
    destinations = [RecordingDestination() for _ in results]
    for destination, result in zip(destinations, results, strict=True):
        destination.result = result
    pipeline = make_pipeline(*destinations)
    work = HandMadeWork()
    pipeline.submit(work)
    assert pipeline.shutdown(LONG_S)
    assert work.deliveries == deliveries


def test_it_remembers_where_and_why_spans_did_not_arrive() -> None:
    destination = RecordingDestination()
    pipeline = make_pipeline(destination)
    refused = SendResult.dropped("unavailable", 2, "Connection refused")
    for result in (SendResult(delivered=2), refused, SendResult.dropped("shut_down", 2)):
        destination.result = result
        pipeline.submit(HandMadeWork())
        assert pipeline.flush(LONG_S)
        expected = "" if result.delivered else "nowhere:4317: Connection refused"
        assert pipeline.last_failure == expected
    pipeline.shutdown(LONG_S)


def test_a_program_ends_though_its_exporter_never_does() -> None:
    program = """
import atexit, threading
from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.pipeline import ExportPipeline
class Hangs:
    def export(self, work, time_left): threading.Event().wait()
    def cancel(self): pass
    def close(self): pass
class Work:
    size_bytes = 1
pipeline = ExportPipeline([Hangs()], ExportCounters())
pipeline.submit(Work())
atexit.register(lambda: print(pipeline.shutdown(0.1), pipeline.counters.counts().dropped_recordings))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=LONG_S
    )
    assert (done.returncode, done.stdout) == (0, "False {'shut_down': 1}\n"), done.stderr


def test_work_that_cannot_be_made_is_counted_and_the_next_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    good = RecordingDestination()
    pipeline = make_pipeline(FailingDestination(), good)
    for _ in range(2):
        pipeline.submit(HandMadeWork())
    assert pipeline.shutdown(LONG_S)
    assert len(good.exported) == 2
    assert good.closed == 1
    assert pipeline.counters.counts() == ExportCounts(dropped_recordings={"encode_failed": 2})
    assert [record.getMessage() for record in caplog.records] == [
        "otel-torchprof: the spans of a recording could not be made: ValueError: a cycle in the tree",
        "otel-torchprof: a destination did not close: OSError: cannot close",
    ]


def test_where_no_thread_can_start_flush_and_shutdown_do_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    destination = RecordingDestination()
    pipeline = make_pipeline(destination)
    work = [HandMadeWork() for _ in range(3)]
    for item in work[:2]:
        assert pipeline.submit(item)
    assert pipeline.flush(LONG_S)
    assert destination.exported == work[:2]
    pipeline.submit(work[2])
    assert pipeline.shutdown(LONG_S)
    assert destination.exported == work
    assert set(destination.thread_names) == {threading.current_thread().name}
    assert destination.closed == 1
    assert all(left is not None and left <= LONG_S for left in destination.times_left)


def test_ranks_wait_a_random_while_unless_somebody_waits_for_them() -> None:
    fractions = iter([0.0, 1.0, 1.0])
    destination = RecordingDestination()
    pipeline = make_pipeline(destination, max_jitter_s=3600.0, random_fraction=lambda: next(fractions))
    pipeline.submit(HandMadeWork())
    assert destination.started.wait(LONG_S), "no jitter: sent at once"
    pipeline.submit(HandMadeWork())
    assert pipeline.flush(LONG_S), "flush ends the wait"
    pipeline.submit(HandMadeWork())
    assert pipeline.shutdown(LONG_S), "shutdown ends the wait"
    assert len(destination.exported) == 3


def test_jitter_holds_work_back() -> None:
    asked = threading.Event()

    def fraction() -> float:
        asked.set()
        return 1.0

    destination = RecordingDestination()
    pipeline = make_pipeline(destination, max_jitter_s=3600.0, random_fraction=fraction)
    pipeline.submit(HandMadeWork())
    assert asked.wait(LONG_S)
    assert destination.exported == []
    assert pipeline.shutdown(LONG_S)


@pytest.mark.parametrize(("world_size", "jitter_s"), [(1, 0.0), (2, 0.1), (100, 5.0), (10_000, 10.0)])
def test_jitter_grows_with_the_ranks(world_size: int, jitter_s: float) -> None:
    assert max_jitter_s(world_size) == pytest.approx(jitter_s)


def test_flush_from_the_export_thread_does_not_wait_for_itself() -> None:
    answers: list[bool] = []

    class Reentrant(RecordingDestination):
        def export(self, work: ExportWork, time_left: TimeLeft) -> SendResult:
            answers.append(pipeline.flush(LONG_S))
            answers.append(pipeline.shutdown(LONG_S))
            return self.result

    pipeline = make_pipeline(Reentrant())
    pipeline.submit(HandMadeWork())
    assert pipeline.shutdown(LONG_S)
    assert answers == [False, False]


def test_many_threads_submit_at_once_and_all_work_is_accounted_for() -> None:
    destination = RecordingDestination()
    pipeline = make_pipeline(destination, max_recordings=50)
    accepted: list[bool] = []

    def submit() -> None:
        for _ in range(50):
            accepted.append(pipeline.submit(HandMadeWork()))

    threads = [threading.Thread(target=submit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pipeline.shutdown(LONG_S)
    counts = pipeline.counters.counts()
    assert counts.exported_recordings == accepted.count(True) == len(destination.exported)
    assert counts.dropped_recordings.get("queue_full", 0) == accepted.count(False)
    assert len(accepted) == 400


def test_a_forked_child_starts_empty_and_works() -> None:
    destination = RecordingDestination()
    pipeline = make_busy_pipeline(destination, 3)
    with pipeline._changed, pipeline.counters._lock:  # as another thread might at the moment of the fork
        pid = os.fork()
        if pid == 0:
            destination.gate = threading.Event()
            destination.gate.set()
            ok = pipeline.counters.counts() == ExportCounts()
            ok &= pipeline.submit(HandMadeWork()) and pipeline.shutdown(LONG_S)
            ok &= len(destination.exported) == 1
            ok &= pipeline.counters.counts() == ExportCounts(exported_recordings=1)
            os._exit(0 if ok else 1)
    destination.gate.set()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert pipeline.shutdown(LONG_S)
    assert len(destination.exported) == 3


def test_the_deadline_of_a_shutdown_reaches_exports_in_progress() -> None:
    now = [1000.0]
    destination = RecordingDestination()
    pipeline = make_busy_pipeline(destination, 1, clock=lambda: now[0])
    closer = threading.Thread(target=pipeline.shutdown, args=(20.0,))
    closer.start()
    with pipeline._changed:
        assert pipeline._changed.wait_for(lambda: pipeline._deadline is not None, LONG_S)
    now[0] = 1015.0
    destination.gate.set()
    closer.join(LONG_S)
    assert destination.times_left == [5.0]
