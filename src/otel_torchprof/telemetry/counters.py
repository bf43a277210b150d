"""Counts of what was sent and what was not, for the `torchprof.export.*` metrics and for tests."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field

from otel_torchprof.telemetry.after_fork import rebuild_after_fork
from otel_torchprof.telemetry.send_result import SendResult


@dataclass(frozen=True, slots=True)
class ExportCounts:
    """The counters at one moment. All only ever grow."""

    sent_spans: int = 0
    sent_bytes: int = 0  # encoded, before compression; 0 for exporters that take span objects
    stripped_spans: int = 0  # went without their attributes, which no request had room for
    rejected_spans: int = 0
    failed_spans: dict[str, int] = field(default_factory=dict)  # by reason
    exported_recordings: int = 0
    dropped_recordings: dict[str, int] = field(default_factory=dict)  # by reason
    sampled_out_steps: int = 0


class ExportCounters:
    """Counters that several threads add to."""

    def __init__(self) -> None:
        self.rebuild_in_child()
        rebuild_after_fork(self)

    def rebuild_in_child(self) -> None:
        """Start from zero: the parent goes on counting its own."""
        self._lock = threading.RLock()  # a signal handler may shut down while its own thread counts
        self._sent_spans = 0
        self._sent_bytes = 0
        self._stripped_spans = 0
        self._rejected_spans = 0
        self._failed_spans: Counter[str] = Counter()
        self._exported_recordings = 0
        self._dropped_recordings: Counter[str] = Counter()
        self._sampled_out_steps = 0

    def add_result(self, result: SendResult, sent_bytes: int = 0) -> None:
        """Count one send; `sent_bytes` are those of the request where any of it was delivered."""
        with self._lock:
            self._sent_spans += result.delivered
            self._sent_bytes += sent_bytes if result.delivered else 0
            self._rejected_spans += result.rejected
            self._failed_spans.update(result.dropped_by_reason)

    def add_stripped_spans(self, spans: int) -> None:
        """Count spans that had to be encoded without their attributes."""
        with self._lock:
            self._stripped_spans += spans

    def add_exported_recording(self) -> None:
        """Count one recording whose spans were all tried."""
        with self._lock:
            self._exported_recordings += 1

    def add_dropped_recordings(self, reason: str, count: int = 1) -> None:
        """Count recordings none of whose spans were tried."""
        if count:
            with self._lock:
                self._dropped_recordings[reason] += count

    def add_sampled_out_step(self) -> None:
        """Count one captured step that the sampler, or its unsampled parent, keeps from being sent."""
        with self._lock:
            self._sampled_out_steps += 1

    def counts(self) -> ExportCounts:
        """A consistent copy."""
        with self._lock:
            return ExportCounts(
                sent_spans=self._sent_spans,
                sent_bytes=self._sent_bytes,
                stripped_spans=self._stripped_spans,
                rejected_spans=self._rejected_spans,
                failed_spans=dict(self._failed_spans),
                exported_recordings=self._exported_recordings,
                dropped_recordings=dict(self._dropped_recordings),
                sampled_out_steps=self._sampled_out_steps,
            )
