"""Counters of real programs: against the system's own, over steps and spans, and where they do not count."""
# torch is not type-checked here.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator,no-untyped-call"

from __future__ import annotations

import json
import mmap
import resource
import threading
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch.profiler import record_function

from otel_torchprof._native import core
from otel_torchprof.analysis.counters import CounterTotals, counter_totals
from otel_torchprof.cli import main as cli
from otel_torchprof.profiler import profile
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import Recording
from otel_torchprof.spans import plan_spans, roots_from_steps
from tests.support.recorded_ops import names_of
from tests.unit.spans.scenes import Run

SOFTWARE = ("page-faults", "task-clock", "minor-faults", "context-switches", "cpu-migrations")

pytestmark = pytest.mark.skipif(
    not all(counts for _name, counts, _remark in core.try_counters(list(SOFTWARE))[0]),
    reason="this kernel counts no software events: see otel-torchprof doctor",
)


def fault(mebibytes: int) -> None:
    """Touches fresh memory, a page fault for each page: too little at a time to come in huge pages."""
    for _ in range(mebibytes):
        with mmap.mmap(-1, 1 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            for offset in range(0, len(memory), mmap.PAGESIZE):
                memory[offset] = 1


def work(seconds: float) -> None:
    """Computes until the thread has used that much processor time, on no other thread."""
    a = torch.randn(64)
    end = cpu_s(resource.RUSAGE_THREAD) + seconds
    while cpu_s(resource.RUSAGE_THREAD) < end:
        a = a.tanh()


def work_and_fault(seconds: float, mebibytes: int) -> None:
    work(seconds)
    fault(mebibytes)


def cpu_s(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def faults(who: int) -> int:
    usage = resource.getrusage(who)
    return usage.ru_minflt + usage.ru_majflt


def of_the_program() -> tuple[int, float]:
    """Page faults and processor seconds of all threads but the recorder's own, which are not counted."""
    ours_faults, ours_s = 0, 0.0
    for task in Path("/proc/self/task").iterdir():
        if (task / "comm").read_text().startswith("torchprof-"):
            fields = (task / "stat").read_text().rpartition(")")[2].split()
            ours_faults += int(fields[7]) + int(fields[9])
            ours_s += int((task / "schedstat").read_text().split()[0]) / 1e9
    return faults(resource.RUSAGE_SELF) - ours_faults, cpu_s(resource.RUSAGE_SELF) - ours_s


def total_of(totals: CounterTotals, counter: str) -> float:
    return float(totals.total[totals.counters.index(counter)])


def test_page_faults_and_task_clock_agree_with_getrusage() -> None:
    capture = Capture(options=CaptureOptions(counters=SOFTWARE))
    capture.start()
    capture.begin_step(0)
    before = of_the_program()
    # One after another: the system's time also holds the switches between threads that wait for the GIL.
    for _ in range(2):
        thread = threading.Thread(target=work_and_fault, args=(0.4, 40))
        thread.start()
        thread.join()
    work_and_fault(0.4, 60)
    after = of_the_program()
    capture.end_step()
    totals = counter_totals(capture.stop())
    step = dict(zip(totals.counters, totals.by_step[0].tolist(), strict=True))
    assert step["page-faults"] == pytest.approx(after[0] - before[0], rel=0.02)
    assert step["task-clock"] / 1e9 == pytest.approx(after[1] - before[1], rel=0.02)


def test_a_span_counts_what_its_thread_counts_meanwhile() -> None:
    with profile(counters=("page-faults", "task-clock")) as prof:
        torch.ones(1)
        before = faults(resource.RUSAGE_THREAD)
        with record_function("span"):
            fault(60)
        after = faults(resource.RUSAGE_THREAD)
        other = threading.Thread(target=fault, args=(20,))
        with record_function("waiting"):
            other.start()
            other.join()
    totals = counter_totals(prof.recording)
    over = dict(zip(totals.events, totals.by_event[:, 0].tolist(), strict=True))
    assert set(over) == {"span", "waiting"}
    assert over["span"] == pytest.approx(after - before, rel=0.02)
    assert over["waiting"] < 2_000
    assert prof.recording.drops == {}


def test_ops_are_counted_over_on_request() -> None:
    with profile(counters=("task-clock",), counter_scope="op") as prof:
        torch.ones(10).add(1)
    recording = prof.recording
    rows = recording.counters["event"]
    assert sorted(rows[rows >= 0].tolist()) == list(range(len(recording)))
    values = recording.counters["value"][rows >= 0]
    assert (values > 0).all()
    assert (values <= 10 * (recording.end_ns - recording.start_ns)).all()


def test_a_counter_that_fails_leaves_the_others_and_the_ops_whole() -> None:
    (_, has_cycles, _), (_, has_raw, _) = core.try_counters(["cycles", "rffff"])[0]
    wanted = ("nonsense", "page-faults", "cycles", "rffff", "cpu/none=1/", "task-clock")
    with profile(counters=wanted) as prof:
        torch.ones(10).add(1)
    metadata: dict[str, str] = prof.recording.metadata["counters"]
    assert list(metadata) == list(wanted)
    assert metadata["page-faults"] == metadata["task-clock"] == "on"
    assert metadata["nonsense"] == "off: no event has this name; `perf list` shows those there are"
    assert metadata["cpu/none=1/"].startswith("off: ")
    for name, works in (("cycles", has_cycles), ("rffff", has_raw)):
        assert metadata[name].startswith("on" if works else "off: ")
    assert prof.recording.metadata["sources"] == {"counters": "on"}
    assert {"page-faults", "task-clock"} <= set(counter_totals(prof.recording).counters)
    assert {"aten::ones", "aten::add"} <= set(names_of(prof.recording))


def test_a_capture_goes_on_without_any_counter() -> None:
    with profile(counters=("nonsense", "more")) as prof:
        torch.ones(10)
    state = prof.recording.metadata["sources"]["counters"]
    assert state.startswith("off: nonsense: no event has this name")
    assert "; more: no event has this name" in state
    assert "OTEL_PYTHON_TORCHPROF_COUNTERS" in state
    assert len(prof.recording.counters) == 0
    assert "aten::ones" in names_of(prof.recording)


def test_four_captures_count_at_once_and_leave_no_handle() -> None:
    def handles() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    torch.ones(1)
    before = handles()
    captures = [Capture(options=CaptureOptions(counters=("page-faults",))) for _ in range(4)]
    for capture in captures:
        capture.start()
    fault(60)
    assert handles() > before
    counted = [total_of(counter_totals(capture.stop()), "page-faults") for capture in captures]
    assert min(counted) > 10_000
    assert handles() == before


def test_threads_of_the_program_are_counted_and_ours_are_not() -> None:
    stop = threading.Event()
    silent = threading.Thread(target=stop.wait, name="silent")
    ours = threading.Thread(target=stop.wait, name="otel-torchprof-something")
    silent.start()
    ours.start()
    with profile(counters=("task-clock",)) as prof:
        work(0.05)
    stop.set()
    silent.join()
    ours.join()
    names = [track.name for track in prof.recording.tracks]
    assert "silent" in names
    assert not any(name.startswith(("torchprof-", "otel-torchprof-")) for name in names)


def test_counters_survive_saving(tmp_path: Path) -> None:
    with profile(counters=SOFTWARE, path=tmp_path / "live.tprof") as prof, record_function("span"):
        fault(1)
        prof.step()
    prof.recording.save(tmp_path / "saved.tprof")
    for name in ("live.tprof", "saved.tprof"):
        again = Recording.open(tmp_path / name)
        assert again.problems == {}
        assert again.metadata["counters"] == dict.fromkeys(SOFTWARE, "on")
        ours, theirs = counter_totals(prof.recording), counter_totals(again)
        assert ours.counters == theirs.counters == SOFTWARE
        for field in ("by_step", "by_thread", "by_event"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(theirs, field))


def test_they_stand_on_the_spans_of_steps_and_user_spans() -> None:
    with profile(counters=("page-faults",)) as prof:
        with record_function("span"):
            fault(2)
        prof.step()
    recording = prof.recording
    plan = plan_spans(recording, roots_from_steps(recording, Run()))
    faults_of = {span.name: span.attributes.get("torch.cpu.page_faults") for span in plan.spans()}
    first_step = next(span for span in plan.spans() if span.attributes.get("torch.step.number") == 0)
    pages = (2 << 20) // mmap.PAGESIZE
    assert pages <= int(str(faults_of["span"])) <= int(str(first_step.attributes["torch.cpu.page_faults"]))


def test_an_unknown_scope_is_refused() -> None:
    with pytest.raises(ValueError, match='counter_scope must be "span" or "op", not \'step\''):
        profile(counters=("page-faults",), counter_scope=cast("Any", "step"))


def test_the_report_has_a_table_of_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with profile(counters=("page-faults", "task-clock"), path=tmp_path / "run.tprof") as prof:
        with record_function("span"):
            torch.ones(1)
        prof.step()
    assert cli.main(["report", str(tmp_path / "run.tprof")]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = [line.split()[0] for line in lines[lines.index("counters") + 2 :]]
    assert rows[:2] == ["step", "step"]
    assert rows[-2:] == ["span", "all"]
    assert cli.main(["report", str(tmp_path / "run.tprof"), "--json"]) == 0
    counters: dict[str, Any] = json.loads(capsys.readouterr().out)["counters"]
    assert counters["names"] == ["page-faults", "task-clock"]
    assert [step["number"] for step in counters["steps"]] == [0, 1]
    assert counters["events"][0]["name"] == "span"
    threads = sum(thread["values"]["page-faults"] for thread in counters["threads"])
    assert counters["total"]["page-faults"] == threads
