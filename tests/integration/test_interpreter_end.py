"""The interpreter ends while threads of a program are at work in the core."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, threading, zlib
from otel_torchprof.exporters import export
from otel_torchprof.recording import RecordingBuilder

builder = RecordingBuilder()
builder.add_track("main")
for start_ns in range(0, 600_000, 10):
    builder.add_event("op", start_ns, start_ns + 5)
recording = builder.finish()
at_work = threading.Semaphore(0)

def work(number):
    while True:
        export(recording, f"{sys.argv[1]}/{number}.json", "chrome" if number % 2 else "otlp-json")
        at_work.release()

for number in range(3):
    threading.Thread(target=work, args=(number,), daemon=True).start()
for _ in range(6):
    at_work.acquire()

class LateWork:
    def __del__(self, compress=zlib.compress, data=bytes(100_000_000)):
        compress(data)  # without the GIL: others may have it as the interpreter ends

late_work = LateWork()
"""


def test_threads_in_the_core_do_not_abort_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
