"""What records a cycle: a capture of our own, or one through torch.profiler."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from otel_torchprof.recorder.failures import failures

if TYPE_CHECKING:
    from otel_torchprof.recorder.capture import Capture
    from otel_torchprof.recorder.capture_options import CaptureOptions
    from otel_torchprof.torch_fallback import TorchCapture

Recorder = Literal["native", "torch"]
Fallback = Literal["torch"]


class OnlyTorchSees(Exception):
    """Why torch.profiler records without having been asked for."""


class RecorderChoice:
    """Starts captures with the recorder that was asked for, or its fallback once that had to be taken.

    Where none was asked for it is our own, but for devices that it does not know.
    """

    def __init__(self, recorder: Recorder | None, fallback: Fallback | None) -> None:
        if recorder not in {None, "native", "torch"} or fallback not in {None, "torch"}:
            raise ValueError(
                f'recorder must be "native" or "torch", not {recorder!r}, and fallback "torch" or None, '
                f"not {fallback!r}"
            )
        self.recorder: Recorder = recorder or "native"
        self._is_open = recorder is None
        self.fallback = fallback

    def for_devices(self, unknown: Sequence[str]) -> None:
        """Takes torch.profiler where there are devices that our recorder does not know, and says so once.

        Args:
            unknown: the names of those that are wanted.
        """
        if not unknown or not self._is_open:
            return
        self._is_open = False
        self.recorder = "torch"
        why = f'{", ".join(unknown)}: only it sees them; recorder="native" records without'
        failures.report("torch.profiler records, for the devices", OnlyTorchSees(why))

    def make_ready(self) -> None:
        """Does what the first capture needs and takes long.

        Raises:
            ImportError: torch is not installed.
        """
        importlib.import_module("torch")
        if self.recorder == "native":
            from otel_torchprof.recorder.bridge import BridgeUnavailable, load_bridge

            try:
                load_bridge()
            except BridgeUnavailable:
                return  # starting says it, or takes the fallback

    def start(self, path: str | os.PathLike[str] | None, options: CaptureOptions) -> Capture | TorchCapture:
        """Starts a capture.

        Raises:
            ImportError: torch is not installed.
            BridgeUnavailable: ops cannot be recorded with this torch on this machine; it says what to do.
            OSError: the file cannot be made.
            RuntimeError: too many record already; through torch.profiler, another of it records.
        """
        importlib.import_module("torch")
        if self.recorder == "torch":
            return _start_torch(path, options)
        from otel_torchprof.recorder.bridge import BridgeUnavailable
        from otel_torchprof.recorder.capture import Capture

        capture = Capture(path, options)
        try:
            capture.start()
        except BridgeUnavailable as error:
            if self.fallback is None:
                raise
            failures.report("torch.profiler records instead of the recorder", error)
            self.recorder = "torch"
            return _start_torch(path, options)
        return capture


def _start_torch(path: str | os.PathLike[str] | None, options: CaptureOptions) -> TorchCapture:
    from otel_torchprof.torch_fallback import TorchCapture

    capture = TorchCapture(path, options)
    capture.start()
    return capture
