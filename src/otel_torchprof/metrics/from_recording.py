"""The metrics that a program would have had while it was recorded."""

from __future__ import annotations

from otel_torchprof.metrics.collective_metrics import collective_families
from otel_torchprof.metrics.device_metrics import device_families
from otel_torchprof.metrics.families import MetricFamily
from otel_torchprof.metrics.memory_metrics import memory_families
from otel_torchprof.metrics.op_metrics import op_families
from otel_torchprof.metrics.recorder_metrics import counter_families, recorder_families
from otel_torchprof.metrics.step_metrics import step_families
from otel_torchprof.recording import Recording


def families_from_recording(recording: Recording, *, durations: bool = False) -> list[MetricFamily]:
    """All metrics that have a value in a recording, whatever it came from.

    Sums are since the recording began. What a recording cannot say, as how often torch.compile compiled, has
    no metric.

    Args:
        durations: make the histograms of single operators and kernels, too, which are many series.
    """
    start_unix_ns = max(recording.start_ns, 0)
    families = [
        *op_families(recording, start_unix_ns, durations=durations),
        *device_families(recording, start_unix_ns, durations=durations),
        *collective_families(recording, start_unix_ns),
        *memory_families(recording, start_unix_ns),
        *step_families(recording, start_unix_ns),
        *counter_families(recording, start_unix_ns),
        *recorder_families(recording, start_unix_ns),
    ]
    return [family for family in families if family.points]
