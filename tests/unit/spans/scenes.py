"""Small recordings, and random ones, for the tests of spans."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from otel_torchprof.recording import (
    EventFlags,
    EventKind,
    Recording,
    RecordingBuilder,
    StepFlags,
    TrackKind,
)

NUMBERED = StepFlags.HAS_NUMBER


@dataclass(frozen=True)
class Run:
    run_id: str = "run"
    restart: int = 0
    rank: int | None = 0


def builder_with_threads() -> RecordingBuilder:
    """Track 0 is the main thread, 1 the autograd thread, 2 a stream."""
    builder = RecordingBuilder()
    builder.add_track("main", thread_id=100, torch_thread_id=1)
    builder.add_track("autograd", thread_id=200, torch_thread_id=2)
    builder.add_track("", TrackKind.STREAM, thread_id=7, device=0)
    builder.set_process(1, 0xABCDEF)
    return builder


STEP_NS = 10_000
_times = st.tuples(st.integers(0, 4 * STEP_NS), st.one_of(st.integers(0, 900), st.integers(0, 2 * STEP_NS)))


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    """Steps with gaps between; nested, crossing, async events on two threads; kernels with and without
    launchers."""
    builder = builder_with_threads()
    for number in range(draw(st.integers(0, 3))):
        start_ns = 1_000 + number * STEP_NS
        builder.add_step(start_ns, start_ns + draw(st.integers(1, STEP_NS)), number, flags=NUMBERED)
    for index, (start_ns, duration_ns) in enumerate(draw(st.lists(_times, max_size=60))):
        kind = draw(st.sampled_from([EventKind.OP, EventKind.OP, EventKind.USER, EventKind.RUNTIME]))
        builder.add_event(
            draw(st.sampled_from(["aten::add", "aten::mm", "ProfilerStep#3", "x" * 300, 'a"b\n'])),
            start_ns,
            start_ns + duration_ns,
            track=draw(st.integers(0, 1)),
            kind=kind,
            flags=draw(
                st.sampled_from([EventFlags(0), EventFlags(0), EventFlags.ASYNC, EventFlags.OTHER_THREAD])
            ),
            sequence=draw(st.integers(-1, 5)),
            forward_thread=draw(st.integers(0, 1)),
            correlation=index if kind is EventKind.RUNTIME else -1,
        )
        if kind is EventKind.RUNTIME:
            builder.add_event(
                "void gemm<float>(float*)",
                start_ns + draw(st.integers(0, 500)),
                start_ns + 500 + draw(st.integers(0, 900)),
                track=2,
                kind=draw(st.sampled_from([EventKind.KERNEL, EventKind.MEMCPY])),
                correlation=draw(st.sampled_from([index, -1])),
            )
    return builder.finish()
