"""A recording with findings, for what shows them: loops over elements, one costly and one that attacks."""

from __future__ import annotations

from otel_torchprof.recording import EventKind, Recording, RecordingBuilder

US = 1_000
LOOPS = 40
HOSTILE_FUNCTION = "<img src=x onerror=document.title='stolen'>"
HOSTILE_FILE = "/home/me/</script><b>x</b>.py"


def recording_with_findings() -> Recording:
    """1,000 us on one thread, in two steps of 500 us.

    `fill`, at 100 us, loops 40 times over elements, 5 us each; a function with a hostile name does so
    at 600 us, 1 us each.
    """
    builder = RecordingBuilder()
    track = builder.add_track("main", thread_id=5)
    builder.add_event("aten::mm", 0, 50 * US, track=track)
    _loop(builder, track, ("fill", "/home/me/fill.py:7"), at_us=100, period_us=5)
    _loop(builder, track, (HOSTILE_FUNCTION, f"{HOSTILE_FILE}:3"), at_us=600, period_us=1)
    builder.add_event("aten::mm", 900 * US, 1_000 * US, track=track)
    builder.add_step(0, 500 * US, 0, track=track)
    builder.add_step(500 * US, 1_000 * US, 1, track=track)
    return builder.finish()


def _loop(
    builder: RecordingBuilder, track: int, function: tuple[str, str], at_us: int, period_us: int
) -> None:
    name, place = function
    end_us = at_us + LOOPS * period_us
    builder.add_event(name, at_us * US, end_us * US, track=track, kind=EventKind.PYTHON, overload=place)
    for number in range(LOOPS):
        start_ns = (at_us + number * period_us) * US
        builder.add_event("aten::select", start_ns, start_ns + 200, track=track)
        builder.add_event("aten::fill_", start_ns + 300, start_ns + 600, track=track)
