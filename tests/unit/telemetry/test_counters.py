"""Counters that several threads add to and a fork leaves behind."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.telemetry.counters import ExportCounters, ExportCounts
from otel_torchprof.telemetry.send_result import SendResult

reasons = st.sampled_from(["timeout", "unavailable", "refused", "too_large"])
results = st.builds(
    SendResult,
    delivered=st.integers(0, 9),
    rejected=st.integers(0, 9),
    dropped_by_reason=st.dictionaries(reasons, st.integers(1, 9)),
)


def total(result: SendResult) -> int:
    return result.delivered + result.rejected + sum(result.dropped_by_reason.values())


@given(st.lists(results, max_size=6))
def test_no_span_is_lost_in_the_sums(parts: list[SendResult]) -> None:
    counters = ExportCounters()
    whole = SendResult()
    for part in parts:
        whole += part
        counters.add_result(part, sent_bytes=10)
    counts = counters.counts()
    assert total(whole) == sum(total(part) for part in parts)
    assert (counts.sent_spans, counts.rejected_spans) == (whole.delivered, whole.rejected)
    assert counts.failed_spans == whole.dropped_by_reason
    assert counts.sent_bytes == 10 * sum(part.delivered > 0 for part in parts)


def test_threads_do_not_lose_each_others_counts() -> None:
    counters = ExportCounters()

    def count() -> None:
        for _ in range(2000):
            counters.add_exported_recording()
            counters.add_dropped_recordings("queue_full")
            counters.add_sampled_out_step()

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counters.counts() == ExportCounts(
        exported_recordings=8000, dropped_recordings={"queue_full": 8000}, sampled_out_steps=8000
    )


def test_counts_are_a_copy() -> None:
    counters = ExportCounters()
    counters.add_dropped_recordings("shut_down", 0)
    before = counters.counts()
    counters.add_dropped_recordings("shut_down", 2)
    assert before.dropped_recordings == {}
    assert counters.counts().dropped_recordings == {"shut_down": 2}


def test_only_a_result_with_nothing_delivered_is_out_of_reach() -> None:
    assert SendResult.dropped("timeout", 3).unreachable
    assert not SendResult(delivered=1, dropped_by_reason={"timeout": 2}).unreachable
    assert not SendResult.dropped("refused", 3).unreachable
    assert SendResult.dropped("timeout", 0) == SendResult()
