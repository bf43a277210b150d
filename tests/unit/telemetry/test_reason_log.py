"""One line a reason, and no flood."""

from __future__ import annotations

import logging

import pytest

from otel_torchprof.telemetry.reason_log import ReasonLog


def test_repeats_are_counted_and_said_later(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    reason_log = ReasonLog(logging.getLogger("test"), repeat_after_s=60.0, clock=lambda: now[0])
    for _ in range(4):
        reason_log.warn("timeout", "no answer")
    reason_log.warn("tls", "no trust")
    now[0] = 59.0
    reason_log.warn("timeout", "no answer")
    now[0] = 60.0
    reason_log.warn("timeout", "still no answer")
    reason_log.warn("tls", "no trust")
    assert [record.getMessage() for record in caplog.records] == [
        "otel-torchprof: no answer",
        "otel-torchprof: no trust",
        "otel-torchprof: still no answer (and 4 times more since the last line)",
        "otel-torchprof: no trust",
    ]
    assert {record.levelno for record in caplog.records} == {logging.WARNING}
