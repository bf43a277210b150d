"""Failures inside the recorder: one line a reason, that people who do not know our code can read."""

from __future__ import annotations

import errno

import pytest

from otel_torchprof.recorder.failures import FailureLog
from otel_torchprof.recorder.sources import SourceUnavailable


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (SourceUnavailable("no such event; see perf list"), "no such event; see perf list"),
        (SourceUnavailable(), "SourceUnavailable: "),
        (FileNotFoundError(errno.ENOENT, "No such file", "/a/b"), "No such file: /a/b"),
        (OSError(errno.ENOSPC, "No space left"), "No space left"),
        (PermissionError("read-only"), "PermissionError: read-only"),
        (KeyError("x"), "KeyError: 'x'"),
    ],
)
def test_the_first_of_a_reason_is_logged_with_its_cause(
    error: Exception, cause: str, caplog: pytest.LogCaptureFixture
) -> None:
    log = FailureLog()
    for _ in range(2):
        log.report("a step was not counted", error)
    assert caplog.messages == [f"otel-torchprof: a step was not counted: {cause} (logged once)"]
    assert log.count("a step was not counted") == 2
