"""A small recording with counters: two steps, two threads, a user span; and what others put beside them."""

from __future__ import annotations

import numpy as np

from otel_torchprof.recording import COUNTER_DTYPE, EventKind, Recording, RecordingBuilder, StepFlags

MAIN, WORKER = 0, 1
STEPS_NS = ((1_000, 2_000), (2_000, 3_000))


def counted_recording(*, estimated: bool = False) -> Recording:
    """Faults: 7 in step 4, 4 in step 5, 100 before, 1,000 after; 3 over the span `forward`, 2 over its op."""
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=100, torch_thread_id=1)
    builder.add_track("worker", thread_id=200)
    builder.set_process(1, 0xABCDEF)
    for number, (start_ns, end_ns) in enumerate(STEPS_NS, 4):
        builder.add_step(start_ns, end_ns, number, track=MAIN, flags=StepFlags.HAS_NUMBER)
    span = builder.add_event("forward", 1_100, 1_900, track=MAIN, kind=EventKind.USER)
    op = builder.add_event("aten::mm", 1_200, 1_300, track=MAIN, kind=EventKind.OP)
    faults = builder.add_name("page-faults", "count")
    clock = builder.add_name("task-clock", "estimate" if estimated else "count")
    level = builder.add_name("GPU 0 Utilization", "value")
    readings = [
        (900, -1, MAIN, faults, 100),
        (1_100, span, MAIN, faults, 3),
        (1_100, span, MAIN, clock, 700),
        (1_200, op, MAIN, faults, 2),
        (1_500, -1, WORKER, level, 50),
        (1_950, -1, WORKER, faults, 2),
        (2_000, -1, MAIN, faults, 5),
        (2_000, -1, MAIN, clock, 950),
        (2_995, -1, MAIN, faults, 4),
        (2_995, -1, MAIN, clock, 990.4),
        (3_100, -1, MAIN, faults, 1_000),
    ]
    builder.add_counters(np.array(readings, dtype=COUNTER_DTYPE))
    return builder.finish()
