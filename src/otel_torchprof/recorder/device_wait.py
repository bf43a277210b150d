"""Waiting for the work on devices, for a bounded time and without touching devices that were not used."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from otel_torchprof.own_threads import OWN_THREAD_PREFIX
from otel_torchprof.recorder.failures import failures

DEVICE_WAIT_THREAD = f"{OWN_THREAD_PREFIX}device"


def wait_for_devices(timeout_s: float, on_thread: Callable[[int], None]) -> bool:
    """Wait until every CUDA device of this process has done what it was given.

    Args:
        timeout_s: the longest to wait.
        on_thread: told the thread, by the operating system's id, that waits, before it does.

    Returns:
        Whether that is so; False too while a CUDA graph is being captured, which a wait would break, and
        where the interpreter starts no more threads.
    """
    import torch

    cuda: Any = torch.cuda
    if not cuda.is_initialized():
        return True
    if cuda.is_current_stream_capturing():
        return False
    used = [device for device in range(cuda.device_count()) if _is_used(device)]
    done = threading.Event()

    def wait() -> None:
        with failures.guard("the work on devices was not waited for"):
            on_thread(threading.get_native_id())
            for device in used:
                cuda.synchronize(device)
            done.set()

    try:
        # A device that hangs must not hang the program's end.
        threading.Thread(target=wait, name=DEVICE_WAIT_THREAD, daemon=True).start()
    except RuntimeError:
        return False
    return done.wait(timeout_s)


def _is_used(device: int) -> bool:
    """Whether the process has a context there: waiting would make one."""
    import torch

    return bool(torch._C._cuda_hasPrimaryContext(device))
