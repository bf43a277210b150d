"""The spans of a whole recording, whatever it was recorded for."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from otel_torchprof.recording import Recording
from otel_torchprof.spans import SpanLimits, SpanPlan, plan_spans, roots_from_steps

NO_LIMITS = SpanLimits(max_spans_per_trace=0, max_trace_bytes=0, runtime_spans=True)
_DEFAULT_SERVICE_NAME = "unknown_service:python"


@dataclass(frozen=True)
class RecordedRun:
    """Tells the spans of one recording from those of others, and those of its ranks from each other."""

    run_id: str
    restart: int
    rank: int
    world_size: int

    @property
    def instance_id(self) -> str:
        """As `service.instance.id`."""
        return f"{self.run_id}/{self.rank}/{self.restart}"


def recorded_run(recording: Recording) -> RecordedRun:
    """The run that a recording says it is of; else one with an id that follows from its times."""
    metadata = recording.metadata
    run_id = metadata.get("run_id")
    if not isinstance(run_id, str) or not run_id:
        run_id = f"{recording.start_ns:x}-{recording.process_id:x}-{len(recording):x}"
    return RecordedRun(
        run_id,
        _number(metadata.get("restart"), 0),
        _number(metadata.get("rank"), 0),
        _number(metadata.get("world_size"), 1),
    )


def plan_recording(recording: Recording, limits: SpanLimits = NO_LIMITS) -> SpanPlan:
    """Plans the spans of a recording, each step a trace."""
    return plan_spans(recording, roots_from_steps(recording, recorded_run(recording)), limits)


def resource_attributes(recording: Recording) -> dict[str, str | int]:
    """The resource of a recording: its service (`OTEL_SERVICE_NAME` where it does not say), run and rank."""
    run = recorded_run(recording)
    service_name = recording.metadata.get("service_name") or os.environ.get("OTEL_SERVICE_NAME")
    return {
        "service.name": str(service_name or _DEFAULT_SERVICE_NAME),
        "service.instance.id": run.instance_id,
        "process.pid": recording.process_id & 0x7FFF_FFFF_FFFF_FFFF,
        "torch.rank": run.rank,
        "torch.world_size": run.world_size,
    }


def _number(value: Any, default: int) -> int:
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else default
