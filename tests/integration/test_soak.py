"""Left on: windows upon windows, threads and forks, and neither memory nor handles grow.

`TORCHPROF_SOAK_WINDOWS=10000` makes it about half an hour.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.instrumented import run_instrumented
from tests.support.otlp_sink import OtlpHttpSink, Received

PROGRAM = str(Path(__file__).with_name("programs") / "soak.py")
WINDOWS = int(os.environ.get("TORCHPROF_SOAK_WINDOWS", "80"))
TIMEOUT_S = 240 + WINDOWS
# A window holds 4,000 ops: twice what a lost recording of one would take.
_SLACK_KB = 2 * 4_000 * 64 // 1024 * (WINDOWS // 40)


class StepCounter(OtlpHttpSink):
    """Keeps no spans: those of a long soak would fill the memory."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def _keep(self, received: Received) -> None:
        steps = sum(span.name == "torch.step" for span in received.spans)
        with self._changed:
            self.steps += steps


@pytest.mark.timeout(TIMEOUT_S + 60)
def test_memory_and_handles_stay_as_they_are(tmp_path: Path) -> None:
    with StepCounter() as sink:
        finished = run_instrumented(
            [PROGRAM, str(WINDOWS)],
            tmp_path,
            {
                "SCHEDULE": "wait=5,active=2",
                "MAX_SPANS_PER_TRACE": "50",
                "MAX_OVERHEAD": "1",  # so many windows are over the default bound
                "OTEL_TRACES_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
            },
            timeout_s=TIMEOUT_S,
        )
    assert finished.stderr == ""
    assert sink.steps == 2 * WINDOWS
    resident_kb, handles, threads = zip(
        *(map(int, line.split()) for line in finished.stdout.splitlines()), strict=True
    )
    early, late = slice(WINDOWS // 4, WINDOWS // 2), slice(-WINDOWS // 4, None)
    assert min(resident_kb[late]) <= min(resident_kb[early]) + _SLACK_KB, resident_kb
    assert min(handles[late]) <= min(handles[early]), handles
    assert min(threads[late]) <= min(threads[early]), threads
