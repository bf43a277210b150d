"""Recording a part of a program by hand: `with profile() as prof: ...`, in the shape of torch.profiler."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from otel_torchprof.recorder.capture_options import DEFAULT_BUFFER_SIZE_BYTES, CaptureOptions, CounterScope
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.step_details import STEP_HAS_NUMBER, STEP_PARTIAL, StepDetails
from otel_torchprof.recorder.steps import StepSource, process_steps

if TYPE_CHECKING:
    from torch.autograd.profiler import record_function
    from typing_extensions import Self

    from otel_torchprof.recorder.capture import Capture
    from otel_torchprof.recording import Recording
    from otel_torchprof.torch_fallback import TorchCapture

__all__ = ["Recorder", "profile", "record_function"]

Recorder = Literal["native", "torch"]


class profile:
    """Records every op of every thread from `start()` to `stop()`, or inside `with`.

    Several may record at the same time, each with a recording of its own that holds all events.

    Args:
        record_shapes: also record shapes, dtypes, strides and plain values of the inputs of ops.
        profile_memory: also record every allocation and free.
        with_stack: also record Python calls.
        with_modules: also record calls of `nn.Module`s, with their paths.
        counters: names of perf events to count, as `perf list` has them.
        counter_scope: over what they are counted beside steps and threads: "span" = user spans, "op" = those
            and every op.
        path: a `.tprof` file to record into; it can be read even if the process is killed. None records
            into memory; `prof.recording.save(path)` saves that.
        buffer_size_bytes: bound on the recording; what does not fit is dropped and counted.
        fallback: "torch" records through torch.profiler where our own recorder has no bridge to this torch;
            docs/torch-fallback.md says what is lost. None raises there.
        recorder: "torch" records through torch.profiler in any case, "native" with our own recorder.

    Raises:
        ValueError: there is no such recorder or counter scope.
    """

    def __init__(
        self,
        *,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        counters: Sequence[str] = (),
        counter_scope: CounterScope = "span",
        path: str | os.PathLike[str] | None = None,
        buffer_size_bytes: int = DEFAULT_BUFFER_SIZE_BYTES,
        fallback: Literal["torch"] | None = None,
        recorder: Recorder = "native",
    ) -> None:
        if recorder not in {"native", "torch"} or fallback not in {None, "torch"}:
            raise ValueError(
                f'recorder must be "native" or "torch", not {recorder!r}, and fallback "torch" or None, '
                f"not {fallback!r}"
            )
        if counter_scope not in {"span", "op"}:
            raise ValueError(f'counter_scope must be "span" or "op", not {counter_scope!r}')
        self.options = CaptureOptions(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
            counters=tuple(counters),
            counter_scope=counter_scope,
            buffer_size_bytes=buffer_size_bytes,
        )
        self.path = path
        self.fallback = fallback
        self.recorder: Recorder = recorder
        """What records, which after `start()` may be the fallback."""
        self.step_num = 0
        self._capture: Capture | TorchCapture | None = None
        self._recording: Recording | None = None

    @property
    def recording(self) -> Recording:
        """What was recorded, once `stop()` was called.

        Raises:
            RuntimeError: it was not.
        """
        if self._recording is None:
            raise RuntimeError("there is no recording yet: leave the `with` block, or call stop(), first")
        return self._recording

    def start(self) -> None:
        """Begin to record, with step 0.

        Raises:
            ImportError: torch is not installed.
            BridgeUnavailable: ops cannot be recorded with this torch on this machine; it says what to do.
            OSError: the file cannot be made.
            RuntimeError: it was started before, or too many record already; through torch.profiler, another
                of it records.
        """
        if self._capture is not None:
            raise RuntimeError("a profile records once: make another")
        importlib.import_module("torch")
        capture = self._start_native() if self.recorder == "native" else self._start_torch()
        capture.begin_step(0, StepDetails(flags=STEP_HAS_NUMBER | STEP_PARTIAL))
        self._capture = capture

    def _start_native(self) -> Capture | TorchCapture:
        from otel_torchprof.recorder.bridge import BridgeUnavailable
        from otel_torchprof.recorder.capture import Capture

        capture = Capture(self.path, self.options)
        try:
            capture.start()
        except BridgeUnavailable as error:
            if self.fallback is None:
                raise
            failures.report("torch.profiler records instead of the recorder", error)
            self.recorder = "torch"
            return self._start_torch()
        return capture

    def _start_torch(self) -> TorchCapture:
        from otel_torchprof.torch_fallback import TorchCapture

        capture = TorchCapture(self.path, self.options)
        capture.start()
        return capture

    def step(self) -> None:
        """End a step and begin the next. It is an explicit step of the program too, as with `step()`.

        Raises:
            RuntimeError: it does not record.
        """
        if self._capture is None or self._recording is not None:
            raise RuntimeError("the profile does not record: call start(), or use `with`, first")
        self.step_num += 1
        self._capture.begin_step(self.step_num, StepDetails(flags=STEP_HAS_NUMBER))
        process_steps.advance(StepSource.EXPLICIT, self)

    def stop(self) -> None:
        """Stop recording; again, it does nothing.

        Raises:
            RuntimeError: it was never started; through torch.profiler, another of it took what was recorded.
            OSError: the recording cannot be saved.
        """
        if self._capture is None:
            raise RuntimeError("the profile does not record: call start(), or use `with`, first")
        if self._recording is None:
            self._recording = self._capture.stop()
            process_steps.forget(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        exception_type: type[BaseException] | None,
        exception: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


def __getattr__(name: str) -> Any:
    if name == "record_function":  # torch's own: it must work under torch.jit.script and torch.compile
        return importlib.import_module("torch.autograd.profiler").record_function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
