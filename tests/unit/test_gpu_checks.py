"""What the tests on a GPU compare recordings by, on recordings made by hand: those run nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from otel_torchprof.recording import DEVICE_DTYPE, EventKind, LinkType, Recording, RecordingBuilder, TrackKind
from tests.gpu.programs import COPIED_BYTES, GRAPH_REPLAYS
from tests.support.device_comparison import LONG_ENOUGH_NS, MIN_PIECES, differences, durations, unlinked
from tests.support.recorded_programs import check_copies, check_graph, check_same_work

GEMM, RELU = "void gemm<float>(float*)", "void relu<float>(float*)"
WAYS = ("Memcpy HtoD (Pinned -> Device)", "Memcpy DtoD (Device -> Device)", "Memcpy DtoH (Device -> Pinned)")


class Gpu:
    """A recording of work that comes one after the other, each piece launched by a call of its own."""

    def __init__(self) -> None:
        self._builder = RecordingBuilder()
        self._thread = self._builder.add_track("main", process_id=1, thread_id=1)
        self._streams: dict[int, int] = {}
        self._rows: list[dict[str, int]] = []
        self._now_ns = 0

    def work(
        self,
        kind: EventKind,
        name: str,
        duration_ns: int = LONG_ENOUGH_NS,
        *,
        stream: int = 7,
        is_linked: bool = True,
        **details: int,
    ) -> None:
        if stream not in self._streams:
            self._streams[stream] = self._builder.add_track(f"stream {stream}", TrackKind.STREAM, device=0)
        begin_ns = self._now_ns
        self._now_ns += 1_000 + duration_ns
        call = self._builder.add_event(
            "cudaLaunchKernel", begin_ns, begin_ns + 500, track=self._thread, kind=EventKind.RUNTIME
        )
        event = self._builder.add_event(
            name, begin_ns + 1_000, self._now_ns, track=self._streams[stream], kind=kind
        )
        if is_linked:
            self._builder.add_link(call, event, LinkType.LAUNCH)
        self._rows.append({"event": event, **details})

    def recording(self) -> Recording:
        rows = np.zeros(len(self._rows), dtype=DEVICE_DTYPE)
        for place, row in enumerate(self._rows):
            for column, value in row.items():
                rows[place][column] = value
        self._builder.add_devices(rows)
        return self._builder.finish()


def kernels(gemm_ns: int = 50_000, gemms: int = MIN_PIECES) -> Recording:
    gpu = Gpu()
    for _ in range(gemms):
        gpu.work(EventKind.KERNEL, GEMM, gemm_ns, grid=64)
    gpu.work(EventKind.KERNEL, RELU, 2_000, grid=8)
    return gpu.recording()


def test_the_same_work_has_no_differences_and_a_missing_kernel_is_named() -> None:
    check_same_work(kernels(), kernels(gemm_ns=70_000))
    assert differences(kernels(gemms=9), kernels(gemms=10)) == "KERNEL gemm: 9 in ours, 10 in the other"
    with pytest.raises(AssertionError, match="KERNEL gemm: 9 in ours, 10 in the other"):
        check_same_work(kernels(gemms=9), kernels(gemms=10))


def test_durations_are_compared_by_their_medians_where_they_are_long_and_many() -> None:
    gemm, relu = durations(kernels(gemm_ns=51_000), kernels(gemm_ns=50_000))
    assert (gemm.name, gemm.pieces, gemm.is_comparable) == ("gemm [64, 64, 64]", MIN_PIECES, True)
    assert gemm.deviation == pytest.approx(0.02)
    assert (relu.name, relu.is_comparable) == ("relu [8, 8, 8]", False)


def test_work_without_a_call_is_told() -> None:
    gpu = Gpu()
    gpu.work(EventKind.KERNEL, GEMM)
    gpu.work(EventKind.MEMSET, "Memset (Device)", is_linked=False)
    assert unlinked(gpu.recording()) == {("MEMSET", "Memset (Device)"): 1}


@pytest.mark.parametrize("missing", [0, 1])
def test_each_node_of_a_graph_is_there_once_a_replay(missing: int) -> None:
    gpu = Gpu()
    gpu.work(EventKind.KERNEL, "fill")  # before the replays, of no graph
    for replay in range(GRAPH_REPLAYS):
        gpu.work(EventKind.KERNEL, GEMM, graph_id=3, graph_node_id=1)
        if replay >= missing:
            gpu.work(EventKind.KERNEL, RELU, graph_id=3, graph_node_id=2)
    if missing:
        with pytest.raises(AssertionError, match="relu"):
            check_graph(gpu.recording())
    else:
        check_graph(gpu.recording())


@pytest.mark.parametrize("odd", [0, 1])
def test_copies_go_all_ways_on_three_streams(odd: int) -> None:
    gpu = Gpu()
    for stream in (7, 13, 14):
        for way in WAYS:
            gpu.work(EventKind.MEMCPY, way, stream=stream, size_bytes=COPIED_BYTES, external_id=1)
    for _ in range(odd):
        gpu.work(EventKind.MEMCPY, WAYS[0], stream=14, size_bytes=4)
    if odd:
        with pytest.raises(AssertionError, match="4: 1"):
            check_copies(gpu.recording())
    else:
        check_copies(gpu.recording())
