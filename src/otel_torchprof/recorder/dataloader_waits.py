"""How long the program waits for the next batch of a DataLoader.

Measured around the iterator's `__next__` itself, where torch's own scope `enumerate(DataLoader)#...__next__`
is, and not by the counts of that scope: each wait is wanted, for a distribution, whether ops are counted in
this step or not, and also where there is no bridge to torch.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

from otel_torchprof.recorder.compiler_opt_out import run_outside_compiler
from otel_torchprof.recorder.failures import failures

# Nanoseconds of one wait; None where the loader had no further batch.
WaitListener = Callable[["int | None"], None]


class DataLoaderWaits:
    """Installs and removes the measurement.

    Args:
        torch: the imported module.
        listener: called after each wait on the thread that waited.
        clock_ns: any steady clock.
    """

    def __init__(
        self,
        torch: ModuleType,
        listener: WaitListener,
        clock_ns: Callable[[], int] = time.perf_counter_ns,
    ) -> None:
        self._torch = torch
        self._listener = listener
        self._clock_ns = clock_ns
        self._original: Callable[..., Any] | None = None
        self._replacement: Callable[..., Any] | None = None

    def install(self) -> None:
        """Measure from now on."""
        iterator = self._torch.utils.data.dataloader._BaseDataLoaderIter
        self._original = iterator.__next__
        self._replacement = self._measured(iterator.__next__)
        iterator.__next__ = self._replacement

    def remove(self) -> None:
        """Measure no more. Idempotent; a wrapper that somebody wrapped in turn stays as a call through."""
        iterator = self._torch.utils.data.dataloader._BaseDataLoaderIter
        if self._replacement is not None and vars(iterator).get("__next__") is self._replacement:
            iterator.__next__ = self._original
        self._replacement = None

    def _measured(self, original: Callable[..., Any]) -> Callable[..., Any]:
        listener, clock_ns = self._listener, self._clock_ns
        is_compiling = self._torch.compiler.is_compiling

        @functools.wraps(original)
        def measured_next(loader: Any) -> Any:
            if self._replacement is None or is_compiling():
                return original(loader)
            began_ns = clock_ns()
            try:
                batch = original(loader)
            except StopIteration:
                _tell(listener, None)
                raise
            _tell(listener, clock_ns() - began_ns)
            return batch

        run_outside_compiler(self._torch, measured_next)
        return measured_next


def _tell(listener: WaitListener, wait_ns: int | None) -> None:
    with failures.guard("a wait for a DataLoader was not counted"):
        listener(wait_ns)
