"""A recording with memory of every kind."""

from __future__ import annotations

import numpy as np

from otel_torchprof.recording import MEMORY_DTYPE, MemoryFlags, Recording, RecordingBuilder

US = 1_000


def memory_recording() -> Recording:
    """A step with an op that allocates 64 bytes, frees 24 and asks for too much; and 16 bytes on a device."""
    builder = RecordingBuilder()
    track = builder.add_track("main", process_id=1, thread_id=100)
    builder.add_event("aten::add", 10 * US, 50 * US, track=track)
    builder.add_step(5 * US, 60 * US, 3, track=track)
    rows = np.zeros(4, dtype=MEMORY_DTYPE)
    rows["time_ns"] = [20 * US, 30 * US, 40 * US, 45 * US]
    rows["event"] = -1
    rows["track"] = track
    rows["address"] = [0x10, 0x10, 0, 0x20]
    rows["size_bytes"] = [64, -24, 1 << 40, 16]
    rows["total_allocated_bytes"] = [64, 40, 40, 16]
    rows["total_reserved_bytes"] = [-1, -1, -1, 1024]
    rows["device"] = [-1, -1, -1, 0]
    rows["device_type"] = [0, 0, 0, 1]
    rows["flags"] = [0, MemoryFlags.FREE, MemoryFlags.OUT_OF_MEMORY, 0]
    builder.add_memory(rows)
    return builder.finish()
