"""What became of spans, as metrics."""

from __future__ import annotations

from otel_torchprof.metrics.families import NumberPoint
from otel_torchprof.telemetry.counters import ExportCounters
from otel_torchprof.telemetry.export_metrics import export_families
from otel_torchprof.telemetry.send_result import SendResult


def test_every_count_is_told_by_reason() -> None:
    counters = ExportCounters()
    counters.add_result(SendResult(delivered=10, rejected=2), sent_bytes=500)
    counters.add_result(SendResult.dropped("timeout", 7))
    counters.add_exported_recording()
    counters.add_dropped_recordings("queue_full", 3)
    values = {
        (family.metric.name, point.attributes.get("torchprof.reason")): point.value
        for family in export_families(counters.counts(), 5)
        for point in family.points
        if isinstance(point, NumberPoint) and point.start_unix_ns == 5
    }
    assert values == {
        ("torchprof.export.spans", None): 10,
        ("torchprof.export.size", None): 500,
        ("torchprof.export.recordings", None): 1,
        ("torchprof.export.failed_spans", "timeout"): 7,
        ("torchprof.export.failed_spans", "rejected"): 2,
        ("torchprof.export.dropped_recordings", "queue_full"): 3,
    }
