"""What a record of CUPTI costs to decode, and what a launched kernel takes of a recording.

The records come from the stand-in of the C++ tests, on any machine: what CUPTI itself takes is not in the
figures, and the walk over a buffer is the stand-in's.
"""

from __future__ import annotations

import ctypes
import tempfile
from pathlib import Path

from benchmarks.rows import Row, Target
from otel_torchprof._native import core
from tests.support.stand_in_device import KINDS, launch, load_stand_in

_NAMES = [f"_ZN2at6native29vectorized_elementwise_kernelILi{width}EfEEviT_".encode() for width in range(40)]


def run(quick: bool) -> list[Row]:
    """Measures the rows "decode a device record" and "recording of a kernel"; needs a C++ compiler."""
    launches, repeats = (20_000, 1) if quick else (200_000, 5)
    with tempfile.TemporaryDirectory() as folder:
        stand_in = load_stand_in(Path(folder))
    figures = sorted(_measure(stand_in, launches) for _ in range(repeats))
    record_ns, _ = figures[len(figures) // 2]
    return [
        Row("decode a device record", record_ns, "ns/record", target=Target("at most", 20, of="ours")),
        Row("recording of a launch and its kernel", figures[0][1], "B/kernel"),
    ]


def _measure(stand_in: ctypes.CDLL, launches: int) -> tuple[float, float]:
    """Nanoseconds a record, and bytes a launch."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.tprof"
        capture = core.Capture(path, 1 << 30)
        capture.start()
        capture.start_device([], KINDS)
        for number in range(launches):
            launch(stand_in, _NAMES[number % len(_NAMES)])
        capture.stop_device()
        capture.stop()
        counts, drops = capture.device_counts(), capture.drops()
        if drops or counts["kernels"] != launches or counts["calls"] != launches:
            raise RuntimeError(f"not all was recorded: {counts}, {drops}")
        # Blocks, not length: what the file really takes.
        return counts["decode_ns"] / (2 * launches), path.stat().st_blocks * 512 / launches
