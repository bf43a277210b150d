"""What the program marked while the allocator kept its history: scopes and moments."""

from __future__ import annotations

from otel_torchprof.importers.columns import EventDraft
from otel_torchprof.importers.cuda_rows import USER_SCOPE
from otel_torchprof.importers.cuda_snapshot.schema import Entry, label_of, time_of
from otel_torchprof.importers.report import ImportReport
from otel_torchprof.recording import EventFlags, EventKind, RecordingBuilder, TrackKind


def add_annotations(
    builder: RecordingBuilder,
    draft: EventDraft,
    device: int,
    entries: list[Entry],
    end_ns: int,
    report: ImportReport,
) -> None:
    """Adds pairs of START and END as scopes of the user, others as moments, on a track of their own.

    Args:
        end_ns: when the history ends, and with it what was begun and not ended.
    """
    if not entries:
        return
    track = builder.add_track(f"cuda:{device} annotations", TrackKind.OTHER, device=device)
    open_starts: dict[str, list[int]] = {}

    def add(name: str, start_ns: int, end_ns: int, flags: int = 0) -> None:
        draft.add(start_ns, end_ns, builder.add_name(name), track, EventKind.USER, USER_SCOPE, flags=flags)

    for entry in entries:
        name, time_ns, stage = label_of(entry), max(time_of(entry), 0), entry.get("stage")
        if stage == "START":
            open_starts.setdefault(name, []).append(time_ns)
        elif stage == "END" and open_starts.get(name):
            start_ns = open_starts[name].pop()
            report.add_problem("negative_duration", time_ns < start_ns)
            add(name, start_ns, max(start_ns, time_ns))
        else:
            report.add_problem("end_without_begin", stage == "END")
            add(name, time_ns, time_ns, EventFlags.INSTANT)
    for name, starts in open_starts.items():
        report.add_problem("begin_without_end", len(starts))
        for start_ns in starts:
            add(name, start_ns, max(start_ns, end_ns), EventFlags.UNFINISHED)
