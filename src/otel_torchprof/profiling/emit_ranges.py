"""`emit_nvtx` and `emit_itt`: ranges around every op for Nvidia's and Intel's tools."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable
from types import TracebackType
from typing import Any, ClassVar

from typing_extensions import Self

from otel_torchprof.recorder.op_ranges import OpRanges


class _EmitRanges:
    """What both have in common. A subclass names the package, and makes of it what pushes and pops."""

    _kind: ClassVar[str]
    _package: ClassVar[str]

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.entered = False
        self.record_shapes = record_shapes
        self._ranges: OpRanges | None = None

    def __enter__(self) -> Self:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError(f"{self._kind} annotation context manager is not reentrant")
        try:
            package = importlib.import_module(self._package)
        except ImportError:
            warnings.warn(
                f"no {self._kind} ranges are emitted: install the package {self._package}",
                UserWarning,
                stacklevel=2,
            )
            return self
        self.entered = True
        self._wait_for_device()
        ranges = OpRanges(*self._functions(package))
        ranges.start(record_shapes=self.record_shapes)
        self._ranges = ranges
        importlib.import_module("torch.autograd.profiler")._run_on_profiler_start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ranges, self._ranges = self._ranges, None
        if ranges is None:
            return
        self._wait_for_device()
        ranges.stop()
        importlib.import_module("torch.autograd.profiler")._run_on_profiler_stop()

    def _functions(self, package: Any) -> tuple[Callable[[str], object], Callable[[], object]]:
        raise NotImplementedError

    def _wait_for_device(self) -> None:
        """What runs on a device already is in no range, and what is in one has run at its end."""


class emit_nvtx(_EmitRanges):
    """Inside `with`, every op is a range of NVTX, which nsys records; needs the package `nvtx`.

    Its text is the op's name, `, seq = N` with the sequence number of the autograd graph, in a backward pass
    `, stashed seq = N` with that of the forward op, and with `record_shapes` `, sizes = [[2, 3], []]`.

    Args:
        enabled: False makes it do nothing.
        record_shapes: append the sizes of the arguments, `[]` for what is no tensor.

    Raises:
        BridgeUnavailable: ops cannot be seen with this torch on this machine.
        RuntimeError: it is entered twice, or another draws ranges.
    """

    _kind = "NVTX"
    _package = "nvtx"

    def _functions(self, package: Any) -> tuple[Callable[[str], object], Callable[[], object]]:
        return package.push_range, package.pop_range

    def _wait_for_device(self) -> None:
        cuda = importlib.import_module("torch").cuda
        if cuda.is_available() and cuda.is_initialized():
            cuda.synchronize()


class emit_itt(_EmitRanges):
    """Inside `with`, every op is a task of ITT, which VTune records; needs the package `ittapi`.

    Texts, arguments and errors are those of `emit_nvtx`.
    """

    _kind = "ITT"
    _package = "ittapi"

    def _functions(self, package: Any) -> tuple[Callable[[str], object], Callable[[], object]]:
        domain = package.domain("PyTorch")

        def push(text: str) -> None:
            package.task_begin(domain, package.string_handle(text))

        return push, lambda: package.task_end(domain)
