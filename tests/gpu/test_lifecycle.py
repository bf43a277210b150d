"""Starting and stopping on a GPU: again and again, beside torch's own profiler, in forks and at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.autograd import DeviceType

from otel_torchprof import autograd_profiler, profile
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import EventKind, Recording
from tests.gpu.programs import ROOT, TIMEOUT_S, record


def kernels(recording: Recording) -> int:
    return int((recording.events.kind == EventKind.KERNEL).sum())


def launch(times: int) -> None:
    x = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    for _ in range(times):
        x.add_(1)


@pytest.fixture(scope="module", autouse=True)
def _cuda_is_ready() -> None:
    launch(1)
    torch.cuda.synchronize()


def recorded_in_new_process(source: str) -> subprocess.CompletedProcess[str]:
    """Torch's profiler keeps CUPTI once it has had it, so that each of these begins anew."""
    return subprocess.run(
        [sys.executable, "-c", source],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def test_each_of_many_captures_has_its_own_work() -> None:
    for times in range(1, 21):
        with profile(device="on") as prof:
            launch(times)
        assert kernels(prof.recording) == times + 1  # and the one that fills


def test_a_capture_that_waits_begins_with_the_step_after_cuda() -> None:
    capture = Capture(options=CaptureOptions(device="auto"))
    capture.start()
    capture.begin_step(0)
    launch(3)
    capture.end_step()
    recording = capture.stop()
    assert recording.metadata["sources"]["device"] == "on"
    assert kernels(recording) == 4


def test_one_capture_has_the_device_and_the_other_goes_on() -> None:
    with profile(device="on") as first, profile(device="on") as second:
        launch(2)
    assert kernels(first.recording) == 3
    assert kernels(second.recording) == 0
    assert second.recording.metadata["sources"]["device"].startswith("off: ")
    assert len(second.recording) > 0


def test_where_another_has_cupti_ops_are_timed_by_events() -> None:
    x = torch.ones(2048, 2048, device="cuda")
    with profile(device="on") as first, autograd_profiler.profile(use_device="cuda") as timed:
        for _ in range(10):
            x @ x
    # Where it is timed, the device's rows have the names of ops.
    traced_us, timed_us = (
        sum(
            average.device_time_total
            for average in prof.key_averages()
            if average.key == "aten::matmul" and average.device_type == DeviceType.CPU
        )
        for prof in (first, timed)
    )
    assert timed_us > 0.9 * traced_us  # and what the device waited for
    assert first.recording.metadata["sources"]["device"] == "on"


BESIDE = """
import torch
from otel_torchprof import profile
from otel_torchprof.recording import EventKind
x = torch.ones(1024, device="cuda"); torch.cuda.synchronize()

def ours(times):
    with profile(device="on") as prof:
        for _ in range(times): x.add_(1)
    state = prof.recording.metadata["sources"]["device"]
    return state, int((prof.recording.events.kind == EventKind.KERNEL).sum())

def torchs(times):
    with torch.profiler.profile() as prof:
        for _ in range(times): x.add_(1)
        torch.cuda.synchronize()
    return sum(event.count for event in prof.key_averages() if "elementwise" in event.key)
"""


def test_after_torchs_profiler_there_is_the_right_answer_or_a_reason() -> None:
    done = recorded_in_new_process(
        BESIDE + "assert torchs(3) == 3\nstate, n = ours(5)\n"
        "assert (state == 'on' and n == 5) or state.startswith('off: '), (state, n)"
    )
    assert done.returncode == 0, done.stderr


def test_torchs_profiler_after_ours_sees_all() -> None:
    done = recorded_in_new_process(BESIDE + "assert ours(5) == ('on', 5)\nassert torchs(3) == 3")
    assert done.returncode == 0, done.stderr


def test_beside_torchs_profiler_there_is_one_warning_and_torchs_answer_is_right() -> None:
    done = recorded_in_new_process(
        BESIDE + "with torch.profiler.profile() as theirs:\n"
        "    state, n = ours(5)\n    ours(5)\n    torch.cuda.synchronize()\n"
        "assert state.startswith('off: torch.profiler records'), state\n"
        "assert sum(e.count for e in theirs.key_averages() if 'elementwise' in e.key) == 10"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("device is not recorded") == 1


def test_a_forked_child_records_nothing_and_the_parent_all() -> None:
    with profile(device="on") as prof:
        launch(2)
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        launch(3)
    assert kernels(prof.recording) == 7


def test_a_program_may_end_with_work_in_flight() -> None:
    done = recorded_in_new_process(
        "import torch\nfrom otel_torchprof import profile\n"
        "x = torch.randn(8192, 8192, device='cuda')\nprof = profile(device='on')\nprof.start()\n"
        "for _ in range(50): x = x @ x"
    )
    assert done.returncode == 0, done.stderr


def test_two_processes_record_at_once(tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(lambda name: record("matmul", "ours", tmp_path / name), ["a.tprof", "b.tprof"]))
    assert [kernels(one) for one in both] == [kernels(both[0])] * 2
    assert kernels(both[0]) > 0
    assert [one.drops for one in both] == [{}, {}]
