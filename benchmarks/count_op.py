"""What counting adds to one `torch.add` on four floats, beside an empty callback."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from benchmarks.pairing import paired
from benchmarks.record_op import Recorder, added_ns, compiled_empty_callback
from benchmarks.rows import Row, Target
from otel_torchprof.recorder.op_counts import OpCounts


def run(quick: bool) -> list[Row]:
    """Measures the rows "count an op"; needs a C++ compiler for the anchor."""
    blocks, repeats = (20, 3) if quick else (100, 9)
    with compiled_empty_callback() as empty_callback:

        def measure(ours: Recorder) -> tuple[float, float]:
            figures = paired(
                lambda: added_ns(ours, blocks), lambda: added_ns(empty_callback, blocks), repeats
            )
            return figures.a, figures.b

        counted_ns, empty_ns = measure(counting())
        durations_ns, empty_beside_durations_ns = measure(counting(with_durations=True))
    return [
        Row("count an op", counted_ns, "ns/op", "empty callback", empty_ns, Target("at most", 1.3)),
        Row(
            "count an op, with histograms", durations_ns, "ns/op", "empty callback", empty_beside_durations_ns
        ),
    ]


def counting(*, with_durations: bool = False) -> Recorder:
    """Counts the ops of all threads while it is entered."""

    @contextlib.contextmanager
    def counted() -> Iterator[None]:
        counts = OpCounts(with_durations=with_durations)
        counts.start()
        try:
            yield
        finally:
            counts.stop()

    return counted
