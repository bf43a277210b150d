"""Recordings for the HTML report: names that attack it, steps, and work on a device."""

from __future__ import annotations

import numpy as np

from otel_torchprof.recording import (
    DEVICE_DTYPE,
    EventKind,
    LinkType,
    Recording,
    RecordingBuilder,
    StepFlags,
    TrackKind,
)

HOSTILE_NAMES = (
    "</script><img src=x onerror=document.title='stolen'>",
    "<!--<script>",
    'a"b',
    "tab\tnewline\nbackslash\\",
    "\x01\x1b[31m",
    "\u202egnp.exe",
    "\u2028line\u2029",
    "&amp;<b>bold</b>",
    "{{data}}",
    "é✓",
    "\ud800",
    "n" * 10_000,
)


def hostile_recording() -> Recording:
    """An op of 1 us for each hostile name, on a thread and with metadata named alike."""
    builder = RecordingBuilder()
    track = builder.add_track("</script><b>thread</b>", thread_id=7)
    for number, name in enumerate(HOSTILE_NAMES):
        builder.add_event(name, number * 1000, number * 1000 + 1000, track=track)
    builder.add_metadata({"torch_version": "</script><i>2.13</i>"})
    return builder.finish()


def training_recording(steps: int = 3) -> Recording:
    """Steps of 100 us: `forward` calls `aten::mm`, which launches a kernel and a copy that overlap.

    Step 1 is twice as slow. On device 0 each step has a kernel of 30 us and, from its 20th us on, a copy of
    20 us and 4,096 bytes.
    """
    builder = RecordingBuilder()
    thread = builder.add_track("python", thread_id=11, process_id=10)
    stream = builder.add_track("stream 7", TrackKind.STREAM, thread_id=7, process_id=10, device=0)
    devices = np.zeros(steps, dtype=DEVICE_DTYPE)
    for step in range(steps):
        at, size = step * 300_000, 2 if step == 1 else 1

        def us(time: int, at: int = at) -> int:
            return at + time * 1000

        length = 100 * size
        builder.add_step(us(0), us(length), step, track=thread, flags=StepFlags.HAS_NUMBER)
        builder.add_event(f"ProfilerStep#{step}", us(0), us(length), track=thread, kind=EventKind.USER)
        builder.add_event("forward", us(10), us(length - 10), track=thread, kind=EventKind.USER)
        builder.add_event("aten::mm", us(20), us(60), track=thread, overload="default")
        builder.add_event("aten::mm", us(70), us(80), track=thread, overload="out")
        launch = builder.add_event(
            "cudaLaunchKernel", us(25), us(30), track=thread, kind=EventKind.RUNTIME, correlation=2 * step + 1
        )
        kernel = builder.add_event("gemm", us(30), us(60), track=stream, kind=EventKind.KERNEL)
        builder.add_link(launch, kernel, LinkType.LAUNCH)
        builder.add_event(
            "cudaMemcpyAsync", us(35), us(40), track=thread, kind=EventKind.RUNTIME, correlation=2 * step + 2
        )
        copy = builder.add_event(
            "Memcpy HtoD", us(50), us(70), track=stream, kind=EventKind.MEMCPY, correlation=2 * step + 2
        )
        devices[step]["event"], devices[step]["size_bytes"] = copy, 4096
    builder.add_devices(devices)
    builder.add_metadata(
        {
            "torch_version": "2.13.0",
            "rank": 0,
            "kineto": {"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]},
        }
    )
    builder.set_process(10, 1)
    return builder.finish()
