"""What is read off Python, the compiler and CUDA's allocator: pauses, recompilations, memory."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from types import ModuleType, SimpleNamespace

import pytest

from otel_torchprof.recorder.cuda_memory import CudaMemory, DeviceMemory
from otel_torchprof.recorder.gc_pauses import GcPauses
from otel_torchprof.recorder.recompilations import Recompilations


def test_pauses_are_counted_by_generation_between_start_and_stop() -> None:
    ticks = iter(range(0, 1_000, 10))
    pauses = GcPauses(clock_ns=lambda: next(ticks))
    gc.disable()  # only what we ask for
    try:
        gc.collect(0)
        pauses.start()
        pauses.start()
        gc.collect(0)
        gc.collect(2)
        gc.collect(2)
        pauses.stop()
        pauses.stop()
        gc.collect(0)
    finally:
        gc.enable()
    assert pauses.pauses_ns == [10, 0, 20]
    pauses.start_over()
    assert pauses.pauses_ns == [0, 0, 0]


def test_a_collection_that_began_before_does_not_count() -> None:
    pauses = GcPauses(clock_ns=lambda: 5)
    pauses._on_gc("stop", {"generation": 1})
    assert pauses.pauses_ns == [0, 0, 0]


def test_frames_compiled_again_count_and_resets_of_the_compiler_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiler = ModuleType("torch._dynamo.convert_frame")
    monkeypatch.setitem(sys.modules, "torch._dynamo.convert_frame", compiler)
    recompilations = Recompilations()
    assert recompilations.count() == 0
    frames: Counter[int] = Counter({0: 1, 1: 3})
    compiler.FRAME_COMPILE_COUNTER = frames  # type: ignore[attr-defined]
    assert recompilations.count() == 2
    frames[0] += 1
    assert recompilations.count() == 3
    frames.clear()
    frames[0] = 2
    assert recompilations.count() == 4


class FakeCuda:
    """CUDA as its allocator describes it; devices that were not used have no numbers."""

    def __init__(self, stats: list[dict[str, int]]) -> None:
        self.initialized = False
        self.stats = stats

    def is_initialized(self) -> bool:
        return self.initialized

    def device_count(self) -> int:
        assert self.initialized, "counting devices may make a context"
        return len(self.stats)

    def memory_stats(self, device: int) -> dict[str, int]:
        return self.stats[device]

    def get_device_properties(self, device: int) -> SimpleNamespace:
        assert self.stats[device], "only devices in use are asked"
        return SimpleNamespace(total_memory=1000 * device)


class FakeCudaOfToday(FakeCuda):
    """Says what share of its memory the process may take, too."""

    def get_per_process_memory_fraction(self, device: int) -> float:
        return 0.25


class FakeCudaWithoutMemory(FakeCuda):
    """Says nothing of how much memory a device has."""

    def get_device_properties(self, device: int) -> SimpleNamespace:
        return SimpleNamespace()


def test_memory_is_read_only_of_devices_that_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(
        [
            {},
            {
                "allocated_bytes.all.current": 10,
                "reserved_bytes.all.current": 40,
                "allocated_bytes.all.peak": 30,
                "num_ooms": 2,
            },
        ]
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    memory = CudaMemory()
    assert memory.read() == []
    cuda.initialized = True
    assert memory.read() == [DeviceMemory(1, 10, 40, 30, 2, 1000)]
    cuda.stats[1]["num_ooms"] = 1  # reset_accumulated_memory_stats, and one more
    assert memory.read() == [DeviceMemory(1, 10, 40, 30, 3, 1000)]


@pytest.mark.parametrize(
    ("kind", "limit_bytes"), [(FakeCuda, 2000), (FakeCudaOfToday, 500), (FakeCudaWithoutMemory, None)]
)
def test_the_limit_is_what_the_process_may_take(
    kind: type[FakeCuda], limit_bytes: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuda = kind([{}, {}, {"reserved_bytes.all.current": 1}])
    cuda.initialized = True
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    (memory,) = CudaMemory().read()
    assert (memory.device, memory.limit_bytes) == (2, limit_bytes)


def test_without_torch_there_is_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert CudaMemory().read() == []
