"""Every allocation and free of torch, on every thread; on CUDA also torch's own history of them."""

from __future__ import annotations

import threading
from typing import Any

from otel_torchprof.recorder.bridge import Bridge, BridgeUnavailable
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable

# Of torch's history, which grows without a bound of its own; an entry takes some KB with its Python stack.
MAX_HISTORY_ENTRIES = 100_000


class MemorySource(Source):
    """Records what the allocators of torch do: of the CPU at once, of CUDA as soon as it is initialized.

    Args:
        with_stack: torch's history on CUDA keeps the Python stack of each allocation and free.
    """

    name = "memory"

    def __init__(self, *, with_stack: bool = False) -> None:
        self._with_stack = with_stack
        self._target: SourceTarget | None = None
        self._waits_for_cuda = False
        self._history: _CudaHistory | None = None

    def prepare(self) -> None:
        """Asks for CUDA: the first time, that loads its driver."""
        with failures.guard("CUDA memory is not recorded"):
            self._waits_for_cuda = _torch().cuda.is_available()

    def start(self, target: SourceTarget) -> None:
        """Begins to record.

        Raises:
            SourceUnavailable: the CPU allocator cannot be watched.
        """
        try:
            target.bridge.enable_memory(target.slot)
        except BridgeUnavailable as error:
            raise SourceUnavailable(str(error)) from None
        self._target = target
        with failures.guard("CUDA memory is not recorded"):
            self._watch_cuda(target.bridge)

    def step_begins(self) -> None:
        """Looks whether CUDA was initialized meanwhile."""
        if self._waits_for_cuda and self._target is not None:
            with failures.guard("CUDA memory is not recorded"):
                self._watch_cuda(self._target.bridge)

    def stop(self) -> None:
        """Ends recording; what torch allocated stays as it is."""
        target, self._target = self._target, None
        if target is None:
            return
        self._waits_for_cuda = False
        target.bridge.disable_memory(target.slot)
        if self._history is not None:
            history, self._history = self._history, None
            history.stop()

    def _watch_cuda(self, bridge: Bridge) -> None:
        cuda = _torch().cuda
        if self._target is None or not self._waits_for_cuda or not cuda.is_initialized():
            return
        self._waits_for_cuda = False
        self._history = _CudaHistory.start(cuda.memory, with_stack=self._with_stack)
        if not bridge.enable_device_memory(self._target.slot):
            raise SourceUnavailable(
                "the torch bridge was compiled without CUDA: install the CUDA headers that torch was built "
                "with and run `otel-torchprof build`"
            )


class _CudaHistory:
    """torch's own record of CUDA memory, what `torch.cuda.memory._dump_snapshot` writes, while it is ours.

    One that the program keeps itself is left alone. There is one a process: the first capture starts it, the
    last one stops it.
    """

    _lock = threading.RLock()  # a signal handler may start a capture while its thread stops one
    _holders = 0

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    @classmethod
    def start(cls, memory: Any, *, with_stack: bool) -> _CudaHistory | None:
        """Begins it, or joins what another capture began; None when the program keeps it itself."""
        with cls._lock:
            if cls._holders == 0:
                if _torch()._C._cuda_isHistoryEnabled():
                    return None
                memory._record_memory_history(
                    enabled="all",
                    context="all" if with_stack else None,
                    stacks="python",
                    max_entries=MAX_HISTORY_ENTRIES,
                )
            cls._holders += 1
        return cls(memory)

    def stop(self) -> None:
        """Ends it with the last capture."""
        cls = type(self)
        with cls._lock:
            cls._holders -= 1
            if cls._holders == 0:
                self._memory._record_memory_history(enabled=None)


def _torch() -> Any:
    import torch

    return torch
