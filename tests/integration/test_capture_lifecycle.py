"""Captures when the process forks, spawns, ends or is killed: each in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from otel_torchprof.recording import EventFlags, Recording

PREAMBLE = """
import os, signal, sys, threading, time
import torch
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions

path = sys.argv[1]
"""


def run(script: str, path: Path, before_torch: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the script in a fresh interpreter; its first argument is where to record to."""
    command = [sys.executable, "-c", before_torch + PREAMBLE + textwrap.dedent(script), str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def succeed(script: str, path: Path, before_torch: str = "") -> str:
    """Runs the script, which must end well and say nothing on stderr; returns what it printed."""
    done = run(script, path, before_torch)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def names(recording: Recording) -> Counter[str]:
    return Counter(recording.event_name(row) for row in range(len(recording)))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.tprof"


def test_exit_inside_a_capture(path: Path) -> None:
    succeed("capture = Capture(path); capture.start(); torch.ones(1)", path)
    recording = Recording.open(path)
    assert recording.stopped
    assert names(recording)["aten::ones"] == 1
    assert [track.name for track in recording.tracks] == ["MainThread"]


def test_exit_by_exception_inside_a_capture(path: Path) -> None:
    done = run("capture = Capture(path); capture.start(); torch.ones(1); sys.exit('the end')", path)
    assert (done.returncode, done.stderr.strip()) == (1, "the end")
    assert Recording.open(path).stopped


def test_exit_with_a_user_scope_open(path: Path) -> None:
    succeed(
        """
        capture = Capture(path)
        capture.start()
        scope = torch.profiler.record_function("never left")
        scope.__enter__()
        torch.ones(1)
        """,
        path,
    )
    recording = Recording.open(path)
    (row,) = (row for row in range(len(recording)) if recording.event_name(row) == "never left")
    assert recording.events.flags[row] & EventFlags.UNFINISHED
    assert recording.events.end_ns[row] >= max(recording.events.end_ns)


def test_daemon_threads_run_ops_while_the_interpreter_ends(path: Path) -> None:
    succeed(
        """
        capture = Capture(path, CaptureOptions(record_shapes=True))
        capture.start()
        running = threading.Barrier(5)
        def run():
            torch.zeros(1)
            running.wait()
            while True:
                torch.zeros(64).add_(1)
        for _ in range(4):
            threading.Thread(target=run, daemon=True).start()
        running.wait()
        """,
        path,
        # Past the exit handlers torch itself aborts, recorded or not: a daemon thread that wants the GIL back
        # is unwound through torch's destructors. The handler that is registered first runs last.
        before_torch="import atexit, os; atexit.register(os._exit, 0)",
    )
    recording = Recording.open(path)
    assert recording.stopped
    assert names(recording)["aten::zeros"] >= 4


def test_several_captures_at_exit(path: Path) -> None:
    succeed("captures = [Capture(path + str(n)) for n in range(3)]\nfor c in captures: c.start()", path)
    assert [Recording.open(f"{path}{n}").stopped for n in range(3)] == [True] * 3


def test_a_capture_that_outlives_the_interpreter(path: Path) -> None:
    # Nobody frees what the frames of a daemon thread hold, which is no reason to print about it.
    succeed(
        """
        capture = Capture(path)
        capture.start()
        waiting = threading.Event()
        def hold(capture):
            waiting.set()
            threading.Event().wait()
        threading.Thread(target=hold, args=(capture,), daemon=True).start()
        waiting.wait()
        """,
        path,
    )
    assert Recording.open(path).stopped


def test_killed_in_a_loop(path: Path) -> None:
    done = run(
        """
        capture = Capture(path)
        capture.start()
        scope = torch.profiler.record_function("until killed")
        scope.__enter__()
        for _ in range(1000):
            torch.ones(1)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        path,
    )
    assert done.returncode == -signal.SIGKILL
    recording = Recording.open(path)
    assert not recording.stopped
    assert names(recording)["aten::ones"] == 1000
    assert recording.metadata["torch_version"]
    (row,) = (row for row in range(len(recording)) if recording.event_name(row) == "until killed")
    assert recording.events.flags[row] & EventFlags.UNFINISHED


def test_a_forked_child_records_nothing_into_the_parents_file(path: Path) -> None:
    printed = succeed(
        """
        capture = Capture(path)
        capture.start()
        torch.ones(1)
        child = os.fork()
        if child == 0:
            torch.full((1,), 1.0)
            print(capture.active, len(capture.stop()), flush=True)
            own = Capture()
            own.start()
            torch.full((1,), 1.0)
            print(len(own.stop()), flush=True)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        torch.zeros(1)
        print(capture.active, len(capture.stop()))
        """,
        path,
    )
    recording = Recording.open(path)
    assert names(recording)["aten::full"] == 0
    assert (names(recording)["aten::ones"], names(recording)["aten::zeros"]) == (1, 1)
    # aten::full calls aten::empty and aten::fill_.
    assert printed.splitlines() == ["False 0", "3", f"True {len(recording)}"]


def test_a_forked_child_leaves_torchs_list_of_callbacks_alone_until_it_records(path: Path) -> None:
    """Removing one takes a lock that another thread of the parent may have held at the fork, for ever."""
    printed = succeed(
        """
        from otel_torchprof.recorder.bridge import load_bridge
        from otel_torchprof.recorder.op_counts import OpCounts

        bridge = load_bridge()
        asked = []
        class Watched:
            def __init__(self, table): self.table = table
            def __getattr__(self, name):
                asked.append(name)
                return getattr(self.table, name)
        bridge._table = Watched(bridge._table)

        capture, counts = Capture(path), OpCounts()
        capture.start()
        counts.start()
        asked.clear()
        child = os.fork()
        if child == 0:
            torch.ones(1)
            capture.stop()
            counts.stop()
            print([name for name in asked if "memory" not in name])
            own = Capture(path + ".child")
            own.start()
            torch.ones(1)
            print(own.recorded)
            own.stop()
            sys.stdout.flush()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        counts.stop()
        capture.stop()
        """,
        path,
    )
    assert printed.splitlines() == ["[]", "3"]


def test_fork_while_threads_record(path: Path) -> None:
    succeed(
        """
        capture = Capture(path)
        capture.start()
        stop = threading.Event()
        def run():
            while not stop.is_set():
                torch.zeros(1)
        threads = [threading.Thread(target=run) for _ in range(3)]
        for thread in threads: thread.start()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                torch.ones(1)
                capture.stop()
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        stop.set()
        for thread in threads: thread.join()
        capture.stop()
        """,
        path,
    )
    recording = Recording.open(path)
    assert names(recording)["aten::ones"] == 0
    assert not any(flags & EventFlags.UNFINISHED for flags in recording.events.flags)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing_workers(path: Path, method: str) -> None:
    """With a real file as __main__, as spawn needs it."""
    script = path.with_name("train.py")
    script.write_text(
        PREAMBLE
        + textwrap.dedent(
            f"""
            import multiprocessing
            def work(n):
                return torch.full((2,), float(n)).sum().item()
            if __name__ == "__main__":
                torch.set_num_threads(1)
                capture = Capture(path)
                capture.start()
                with multiprocessing.get_context("{method}").Pool(2) as pool:
                    print(pool.map(work, range(4)))
                torch.zeros(1)
                capture.stop()
            """
        )
    )
    command = [sys.executable, str(script), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[0.0, 2.0, 4.0, 6.0]"), done.stderr
    recording = Recording.open(path)
    assert (names(recording)["aten::full"], names(recording)["aten::zeros"]) == (0, 1)


def test_importing_the_recorder_imports_no_torch_and_starts_no_thread() -> None:
    script = """
        import sys, threading
        import otel_torchprof.recorder.bridge, otel_torchprof.recorder.capture
        print("torch" in sys.modules, threading.active_count())
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "1"]


def test_a_forked_child_has_the_allocator_of_torch(path: Path) -> None:
    script = """
    capture = Capture(path, CaptureOptions(profile_memory=True))
    capture.start()
    kept = torch.full((1000,), 3, dtype=torch.uint8)
    child = os.fork()
    if child == 0:
        assert kept.sum().item() == 3000
        del kept
        again = Capture(options=CaptureOptions(profile_memory=True))
        again.start()
        torch.empty(7, dtype=torch.uint8)
        sizes = again.stop().memory["size_bytes"].tolist()
        os._exit(0 if sizes == [7, -7] else 1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    del kept
    capture.stop()
    """
    assert succeed(script, path) == "0\n"
    assert Recording.open(path).memory["size_bytes"].tolist()[::-1][0] == -1000


def test_exit_inside_a_capture_of_memory(path: Path) -> None:
    script = """
    capture = Capture(path, CaptureOptions(profile_memory=True))
    capture.start()
    kept = torch.empty(1000, dtype=torch.uint8)
    """
    succeed(script, path)
    recording = Recording.open(path)
    assert recording.stopped
    assert recording.memory["size_bytes"].tolist()[0] == 1000
