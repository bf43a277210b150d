"""A signal handler switches the mode at any moment of a fork, while another thread switches it too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.instrumented import instrumented_environment, script

PROGRAM = """
import os, signal, threading
import torch
from otel_torchprof import set_mode

def switch(*_):
    set_mode("metrics")
    signal.setitimer(signal.ITIMER_REAL, 0.003)  # not before this one is done

def switch_all_the_time():
    while not done.is_set():
        set_mode("off")
        set_mode("both")

done = threading.Event()
signal.signal(signal.SIGALRM, switch)
switch()
switching = threading.Thread(target=switch_all_the_time)
switching.start()
for _ in range(60):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
done.set()
signal.signal(signal.SIGALRM, signal.SIG_IGN)
switching.join()
print("done")
"""


def test_nobody_waits_for_ever(tmp_path: Path) -> None:
    done = subprocess.run(
        [script("opentelemetry-instrument"), sys.executable, "-c", PROGRAM],
        env=instrumented_environment({"OTEL_TRACES_EXPORTER": "none"}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
