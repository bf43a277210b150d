"""The memory source with a bridge and a CUDA of our own: what it switches on and off, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
import torch

from otel_torchprof.recorder.bridge import Bridge, BridgeUnavailable
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources import SourceTarget, SourceUnavailable
from otel_torchprof.recorder.sources.memory import MAX_HISTORY_ENTRIES, MemorySource


class RecordedBridge:
    """Notes what is asked of it."""

    def __init__(self, *, with_cuda: bool = True, refuses: str = "") -> None:
        self.calls: list[tuple[str, int]] = []
        self._with_cuda = with_cuda
        self._refuses = refuses

    def enable_memory(self, slot: int) -> None:
        if self._refuses:
            raise BridgeUnavailable(self._refuses)
        self.calls.append(("enable", slot))

    def enable_device_memory(self, slot: int) -> bool:
        self.calls.append(("enable device", slot))
        return self._with_cuda

    def disable_memory(self, slot: int) -> None:
        self.calls.append(("disable", slot))


class FakeCuda:
    """Stands in for `torch.cuda` and the history of its allocator."""

    def __init__(self, *, initialized: bool) -> None:
        self.initialized = initialized
        self.history: list[dict[str, Any]] = []
        self.memory = self

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return self.initialized

    def history_enabled(self) -> bool:
        return bool(self.history) and self.history[-1]["enabled"] is not None

    def _record_memory_history(self, **options: Any) -> None:
        self.history.append(options)


Install = Callable[[FakeCuda], FakeCuda]


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    def installed(cuda: FakeCuda) -> FakeCuda:
        monkeypatch.setattr(torch, "cuda", cuda)
        monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", cuda.history_enabled, raising=False)
        return cuda

    return installed


def target(bridge: RecordedBridge, slot: int = 2) -> SourceTarget:
    return SourceTarget(cast(Any, None), slot, cast(Bridge, bridge))


def test_without_cuda_only_the_cpu_is_watched() -> None:
    bridge = RecordedBridge()
    source = MemorySource()
    source.prepare()
    source.start(target(bridge))
    source.step_begins()
    source.stop()
    source.stop()
    assert bridge.calls == [("enable", 2), ("disable", 2)]


def test_an_allocator_that_cannot_be_watched_says_why() -> None:
    bridge = RecordedBridge(refuses="the cause; the way out")
    source = MemorySource()
    source.prepare()
    with pytest.raises(SourceUnavailable, match=r"^the cause; the way out$"):
        source.start(target(bridge))
    source.stop()
    assert bridge.calls == []


def test_cuda_is_watched_from_the_step_on_that_finds_it_initialized(install: Install) -> None:
    cuda = install(FakeCuda(initialized=False))
    bridge = RecordedBridge()
    source = MemorySource()
    source.prepare()
    source.start(target(bridge))
    source.step_begins()
    assert cuda.history == []
    cuda.initialized = True
    source.step_begins()
    source.step_begins()
    assert bridge.calls == [("enable", 2), ("enable device", 2)]
    source.stop()
    assert [options["enabled"] for options in cuda.history] == ["all", None]


@pytest.mark.parametrize(("with_stack", "context"), [(False, None), (True, "all")])
def test_the_history_of_cuda_has_stacks_on_request(
    install: Install, with_stack: bool, context: str | None
) -> None:
    cuda = install(FakeCuda(initialized=True))
    source = MemorySource(with_stack=with_stack)
    source.prepare()
    source.start(target(RecordedBridge()))
    assert cuda.history == [
        {"enabled": "all", "context": context, "stacks": "python", "max_entries": MAX_HISTORY_ENTRIES}
    ]
    source.stop()


def test_a_history_that_the_program_keeps_is_left_alone(install: Install) -> None:
    cuda = install(FakeCuda(initialized=True))
    cuda._record_memory_history(enabled="state")
    source = MemorySource()
    source.prepare()
    source.start(target(RecordedBridge()))
    source.stop()
    assert cuda.history == [{"enabled": "state"}]


def test_captures_that_overlap_share_the_history(install: Install) -> None:
    cuda = install(FakeCuda(initialized=True))
    first, second = MemorySource(), MemorySource()
    first.prepare()
    first.start(target(RecordedBridge(), 0))
    second.prepare()
    second.start(target(RecordedBridge(), 1))
    first.stop()
    assert [options["enabled"] for options in cuda.history] == ["all"]
    second.stop()
    assert [options["enabled"] for options in cuda.history] == ["all", None]


def test_a_bridge_without_cuda_leaves_the_cpu_watched(install: Install) -> None:
    install(FakeCuda(initialized=True))
    bridge = RecordedBridge(with_cuda=False)
    before = failures.count("CUDA memory is not recorded")
    source = MemorySource()
    source.prepare()
    source.start(target(bridge))
    assert failures.count("CUDA memory is not recorded") == before + 1
    source.stop()
    assert bridge.calls == [("enable", 2), ("enable device", 2), ("disable", 2)]
