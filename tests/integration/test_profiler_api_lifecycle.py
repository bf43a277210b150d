"""Profiles that overlap, are dropped or are never stopped: right answers and no crash, however often."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from otel_torchprof import Recording
from otel_torchprof.profiler import ProfilerActivity, profile, schedule

CPU = [ProfilerActivity.CPU]

NEVER_STOPPED = """
import torch
from otel_torchprof import profile
prof = profile(record_shapes=True, profile_memory=True, with_stack=True)
prof.start()
torch.ones(8).cos()
"""

OVERLAPPING = """
import threading, torch
from otel_torchprof import profile, ProfilerActivity

def work():
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        for _ in range(50):
            torch.ones(8).cos()
    assert [a.count for a in prof.key_averages() if a.key == "aten::cos"][0] >= 50

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


# Forked before torch has a thread, with all that a capture imports: a hundred processes take seconds.
HUNDRED_NEVER_STOPPED = """
import gc, os, sys, tempfile, threading, torch
from otel_torchprof import profile
from otel_torchprof.recorder import capture
from otel_torchprof.recorder.bridge import load_bridge
from otel_torchprof.recorder.sources import memory, modules, python_frames, tensor_roles

torch.set_num_threads(1)
values = torch.ones(8)
profiles = []

def start(**options):
    profiles.append(profile(**options))
    profiles[-1].start()
    values.cos()

def in_a_thread():
    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

def inside_each_other():
    for _ in range(4):
        start()

def into_a_file():
    start(path=os.path.join(tempfile.mkdtemp(dir=sys.argv[1]), "run.tprof"))

def with_everything():
    start(record_shapes=True, profile_memory=True, with_stack=True, with_modules=True)

load_bridge()
gc.freeze()
ways = [start, in_a_thread, inside_each_other, into_a_file, with_everything]
for number in range(100):
    child = os.fork()
    if child == 0:
        ways[number % len(ways)]()
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        sys.exit(f"run {number} ({ways[number % len(ways)].__name__}) ended with {status}")
"""


def test_a_hundred_captures_that_are_never_stopped_crash_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HUNDRED_NEVER_STOPPED, str(tmp_path)]
    subprocess.run(command, check=True, timeout=550)
    files = list(tmp_path.glob("*/run.tprof"))
    assert len(files) == 20
    for file in files:
        recording = Recording.open(file)
        assert "aten::cos" in {recording.event_name(row) for row in range(len(recording))}


@pytest.mark.parametrize("program", [NEVER_STOPPED, OVERLAPPING])
def test_a_process_ends_well(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_a_hundred_profiles_inside_each_other_see_their_events() -> None:
    values = torch.ones(2)
    for _ in range(100):
        with profile(activities=CPU) as outer:
            values.cos()
            with profile(activities=CPU) as inner:
                values.sin()
            values.tan()
        assert names(outer) == {"aten::cos": 1, "aten::sin": 1, "aten::tan": 1}
        assert names(inner) == {"aten::sin": 1}


def test_profiles_may_end_in_the_order_they_began() -> None:
    first, second = profile(activities=CPU), profile(activities=CPU)
    values = torch.ones(2)
    first.start()
    values.cos()
    second.start()
    values.sin()
    first.stop()
    values.tan()
    second.stop()
    assert names(first) == {"aten::cos": 1, "aten::sin": 1}
    assert names(second) == {"aten::sin": 1, "aten::tan": 1}


def test_beside_torchs_own_both_see_their_events() -> None:
    values = torch.ones(2)
    with torch.profiler.profile(activities=CPU) as theirs, profile(activities=CPU) as ours:
        values.cos()
    assert names(ours) == names(theirs) == {"aten::cos": 1}


def test_one_too_many_is_an_error_and_the_others_go_on() -> None:
    running = [profile(activities=CPU) for _ in range(4)]
    for prof in running:
        prof.start()
    with pytest.raises(RuntimeError):
        profile(activities=CPU).start()
    torch.ones(2).cos()
    for prof in running:
        prof.stop()
        assert names(prof)["aten::cos"] == 1


def test_a_dropped_profile_gives_its_place_back() -> None:
    for _ in range(12):
        prof = profile(activities=CPU)
        prof.start()
        del prof
    with profile(activities=CPU) as last:
        torch.ones(2).cos()
    assert names(last)["aten::cos"] == 1


def test_results_outlive_the_profile() -> None:
    def run() -> Any:
        with profile(activities=CPU, record_shapes=True) as prof:
            torch.ones(2, 3).cos()
        return prof.events(), prof.key_averages()

    events, averages = run()
    cosine = next(event for event in events if event.name == "aten::cos")
    assert cosine.input_shapes == [[2, 3]]
    assert "aten::cos" in averages.table()


def test_an_empty_profile_has_empty_results() -> None:
    with profile(activities=CPU, profile_memory=True, with_flops=True) as prof:
        pass
    assert list(prof.events()) == []
    assert prof.key_averages().table() == ""
    assert prof.profiler is not None
    assert prof.profiler.total_average().count == 0
    assert prof.profiler.kineto_results.experimental_event_tree() == []


def test_steps_without_ops_are_events() -> None:
    prof = profile(activities=CPU, schedule=schedule(wait=0, warmup=0, active=2, repeat=1))
    with prof:
        prof.step()
        prof.step()
    assert [event.trace_name for event in prof.events()] == ["ProfilerStep#0", "ProfilerStep#1"]


def names(prof: Any) -> Counter[str]:
    return Counter({average.key: average.count for average in prof.key_averages()})
