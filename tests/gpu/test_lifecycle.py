"""Starting and stopping on a GPU: again and again, beside torch's own profiler, in forks and at the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch.autograd import DeviceType

from otel_torchprof import autograd_profiler, profile
from otel_torchprof.importers import load
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import EventKind, Recording
from tests.gpu.programs import GRAPH_REPLAYS, Recorder, graph, must_pass, record, recording_path, run_python
from tests.support.device_comparison import work


def assert_kernels(recording: Recording, expected: int) -> None:
    """As many kernels, and nothing dropped; else what there is."""
    metadata = recording.metadata
    found = int((recording.events.kind == EventKind.KERNEL).sum())
    assert (found, dict(recording.drops)) == (expected, {}), (
        f"{found} kernels, expected {expected}; dropped {dict(recording.drops)}; {dict(work(recording))}; "
        f"sources {metadata.get('sources')}, device {metadata.get('device')}"
    )


def launch(times: int) -> None:
    x = torch.ones(1024, device="cuda")
    torch.cuda.synchronize()
    for _ in range(times):
        x.add_(1)


@pytest.fixture(scope="module", autouse=True)
def _cuda_is_ready() -> None:
    launch(1)
    torch.cuda.synchronize()


def test_each_of_many_captures_has_its_own_work() -> None:
    for times in range(1, 21):
        with profile(device="on") as prof:
            launch(times)
        assert_kernels(prof.recording, times + 1)  # and the one that fills


def test_a_capture_that_waits_begins_with_the_step_after_cuda() -> None:
    capture = Capture(options=CaptureOptions(device="auto"))
    capture.start()
    capture.begin_step(0)
    launch(3)
    capture.end_step()
    recording = capture.stop()
    assert recording.metadata["sources"]["device"] == "on"
    assert_kernels(recording, 4)


def test_one_capture_has_the_device_and_the_other_goes_on() -> None:
    with profile(device="on") as first, profile(device="on") as second:
        launch(2)
    assert_kernels(first.recording, 3)
    assert_kernels(second.recording, 0)
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
    # And what the device waited for.
    assert timed_us > 0.9 * traced_us > 0, (
        f"{timed_us} us by events, {traced_us} us traced; {timed.key_averages()}"
    )
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
    return seen(prof)

def seen(prof):
    counts = {event.key: event.count for event in prof.key_averages()}
    print(counts)
    return sum(count for key, count in counts.items() if "elementwise" in key)
"""


# Torch's profiler keeps CUPTI once it has had it, so that each of these begins in a new process.
def test_after_torchs_profiler_there_is_the_right_answer_or_a_reason() -> None:
    done = run_python(
        "-c",
        BESIDE + "n = torchs(3)\nassert n == 3, n\nstate, n = ours(5)\nprint(state, n)\n"
        "assert (state == 'on' and n == 5) or state.startswith('off: '), (state, n)",
    )
    print(must_pass(done).stdout)


def test_torchs_profiler_after_ours_sees_all() -> None:
    done = run_python(
        "-c",
        BESIDE
        + "state, n = ours(5)\nassert (state, n) == ('on', 5), (state, n)\nn = torchs(3)\nassert n == 3, n",
    )
    must_pass(done)


def test_beside_torchs_profiler_there_is_one_warning_and_torchs_answer_is_right() -> None:
    done = run_python(
        "-c",
        BESIDE + "with torch.profiler.profile() as theirs:\n"
        "    state, n = ours(5)\n    ours(5)\n    torch.cuda.synchronize()\n"
        "assert state.startswith('off: torch.profiler records'), state\n"
        "n = seen(theirs)\nassert n == 10, n",
    )
    assert must_pass(done).stderr.count("device is not recorded") == 1, done.stderr


def test_torchs_profiler_within_a_window_makes_that_incomplete_with_one_warning() -> None:
    done = run_python(
        "-c",
        BESIDE + "with profile(device='on') as prof:\n"
        "    x.add_(1)\n    torch.cuda.synchronize()\n    n = torchs(3)\n"
        "device = prof.recording.metadata['device']\nprint(n, device)\n"
        "assert device['complete'] is False, device",
    )
    print(must_pass(done).stdout)
    assert done.stderr.count("work on devices is incomplete") == 1, done.stderr


def test_a_forked_child_records_nothing_and_the_parent_all() -> None:
    with profile(device="on") as prof:
        launch(2)
        child = os.fork()
        if child == 0:
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        launch(3)
    assert_kernels(prof.recording, 7)


def test_a_program_may_end_with_work_in_flight() -> None:
    done = run_python(
        "-c",
        "import torch\nfrom otel_torchprof import profile\n"
        "x = torch.randn(8192, 8192, device='cuda')\nprof = profile(device='on')\nprof.start()\n"
        "for _ in range(50): x = x @ x",
    )
    must_pass(done)


def test_two_processes_record_at_once(tmp_path: Path, recorded: Callable[[str, Recorder], Recording]) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda folder: record("ours", folder, "matmul"), folders))
    alone = work(recorded("matmul", "ours"))
    for folder in folders:
        both = load(recording_path(folder, "matmul", "ours"))[0]
        assert work(both) == alone, f"{work(both) - alone} more, {alone - work(both)} less"
        assert dict(both.drops) == {}


def test_a_graph_may_be_one_piece_of_work() -> None:
    replay = graph()
    replay()
    with profile(device="on", device_graphs="whole") as prof:
        replay()
    found = work(prof.recording)
    assert {name: count for (_kind, name), count in found.items()} == {"CUDA graph": GRAPH_REPLAYS}, found
