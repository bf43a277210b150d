"""The totals of a report, counted in the finished recording."""

from __future__ import annotations

import numpy as np

from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import EventKind, LinkType, Recording


def count_totals(recording: Recording, report: ImportReport) -> None:
    """Adds to the report what the recording holds."""
    kinds = np.bincount(recording.events.kind, minlength=len(EventKind))
    counts = report.counts
    counts["events"] = len(recording)
    counts["kernels"] = int(kinds[EventKind.KERNEL])
    counts["copies"] = int(kinds[EventKind.MEMCPY] + kinds[EventKind.MEMSET])
    counts["links"] = len(recording.links)
    counts["launches_linked"] = int(np.count_nonzero(recording.links.type == LinkType.LAUNCH))
    counts["steps"] = len(recording.steps)
    counts["tracks"] = len(recording.tracks)
    counts["counters"] = len(recording.counters)
    counts["memory_events"] = len(recording.memory)
