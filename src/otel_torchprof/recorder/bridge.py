"""The torch bridge in this process: loaded once, its callbacks switched on and off by capture slot."""

from __future__ import annotations

import ctypes
import os
import threading
from pathlib import Path

from otel_torchprof._native import core
from otel_torchprof.recorder.bridge_location import (
    BridgeStatus,
    BridgeUnavailable,
    bridge_status,
    build_bridge,
    installed_torch,
    locate_bridge,
)

__all__ = ["Bridge", "BridgeStatus", "BridgeUnavailable", "bridge_status", "build_bridge", "load_bridge"]

# The values of native/torch/bridge_abi.h.
_ABI_VERSION = 4
_OK = 0
_TOO_MANY_ALLOCATORS = 3
_WITHOUT_CUDA = 4
_HOOK_INPUTS = 1
_HOOK_IDENTITIES = 2
_CAPTURE_SLOTS = 4
_DEVICE_EVENTS = ("cuda", "privateuse1")  # in the order of their numbers
_COUNTING = -1  # stands for counting among the slots


class _BridgeTable(ctypes.Structure):
    """torchprof_bridge_table. Its calls release the GIL: torch's lock is never waited for under it."""

    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("table_bytes", ctypes.c_uint32),
        ("torch_version", ctypes.c_char_p),
        ("enable", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32, ctypes.c_uint32)),
        ("disable", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32)),
        ("enable_memory", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32)),
        ("enable_device_memory", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32)),
        ("disable_memory", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint32)),
        ("enable_counting", ctypes.CFUNCTYPE(ctypes.c_int)),
        ("disable_counting", ctypes.CFUNCTYPE(ctypes.c_int)),
        ("time_ops", ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_uint32)),
        ("device_events", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)),
    )


class Bridge:
    """A loaded bridge. Its library stays in the process for good: callbacks may run until the very end."""

    def __init__(self, path: Path, torch_version: str, core_table_address: int) -> None:
        """Loads the library.

        Args:
            path: the library; torch must already be imported.
            torch_version: the `torch.__version__` it must be made for.
            core_table_address: address of the core's torchprof_core_table, valid for the life of the process.

        Raises:
            BridgeUnavailable: it does not load, or is not for this torch or this core.
        """
        try:
            init = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_LOCAL).torchprof_bridge_init
        except (OSError, AttributeError) as error:
            raise BridgeUnavailable(
                f"the torch bridge {path} does not load ({error}): delete it, or if its file system forbids "
                "executables set XDG_CACHE_HOME to another"
            ) from None
        init.argtypes = (ctypes.c_void_p,)
        init.restype = ctypes.POINTER(_BridgeTable)
        table = init(core_table_address)
        if not table or table.contents.abi_version != _ABI_VERSION:
            raise BridgeUnavailable(f"the torch bridge {path} is for another otel-torchprof: delete it")
        made_for = table.contents.torch_version.decode()
        if made_for != torch_version:
            raise BridgeUnavailable(
                f"the torch bridge {path} is for torch {made_for}, not {torch_version}: delete it"
            )
        self.path = path
        self._table = table.contents
        # A signal handler may stop a capture while its own thread starts or stops one.
        self._lock = threading.RLock()
        # Whose callbacks this process has from its parent, and must not remove.
        self._inherited: set[int] = set()
        self._recording: set[int] = set()  # slots that hear of ops
        os.register_at_fork(after_in_child=self._after_fork_in_child)

    @property
    def records(self) -> bool:
        """Whether any capture of this process hears of ops."""
        return bool(self._recording)

    def enable(self, slot: int, *, record_inputs: bool, record_identities: bool = False) -> None:
        """Has a capture slot hear of ops and spans; again with the same options it changes nothing.

        Args:
            slot: of the capture.
            record_inputs: shapes, dtypes, strides and concrete values of inputs.
            record_identities: with inputs, which tensors they are.

        Raises:
            BridgeUnavailable: torch refused them.
        """
        flags = _HOOK_INPUTS * record_inputs | _HOOK_IDENTITIES * (record_inputs and record_identities)
        with self._lock:
            self._inherited.discard(slot)
            code = self._table.enable(slot, flags)
            if not code:
                self._recording.add(slot)
        if code:
            raise BridgeUnavailable(
                f"torch refused the callbacks of capture slot {slot} (code {code}): stop the capture"
            )
        core.record_scopes(slot, True)

    def disable(self, slot: int) -> None:
        """Ends that; without it does nothing."""
        core.record_scopes(slot, False)
        with self._lock:
            self._recording.discard(slot)
            if slot not in self._inherited:
                self._table.disable(slot)

    def enable_memory(self, slot: int) -> None:
        """Reports what the CPU allocator does to a capture slot.

        Raises:
            BridgeUnavailable: it cannot be watched.
        """
        with self._lock:
            code = self._table.enable_memory(slot)
        if code == _TOO_MANY_ALLOCATORS:
            raise BridgeUnavailable("this process changed its CPU allocator too often: start it anew")
        if code:
            raise BridgeUnavailable(
                f"torch refused another CPU allocator (code {code}): stop what else replaces it"
            )

    def enable_device_memory(self, slot: int) -> bool:
        """Reports what the allocator of CUDA does, to a slot with memory enabled; once CUDA is initialized.

        Returns:
            False when the bridge was compiled without CUDA.

        Raises:
            BridgeUnavailable: torch refused it.
        """
        with self._lock:
            code = self._table.enable_device_memory(slot)
        if code not in (_OK, _WITHOUT_CUDA):
            raise BridgeUnavailable(f"torch's CUDA allocator cannot be watched (code {code})")
        return bool(code == _OK)

    def disable_memory(self, slot: int) -> None:
        """Ends that; without it does nothing."""
        with self._lock:
            self._table.disable_memory(slot)

    def enable_counting(self) -> None:
        """Counts ops and spans from now on; again, it changes nothing.

        Raises:
            BridgeUnavailable: torch refused them.
        """
        with self._lock:
            self._inherited.discard(_COUNTING)
            code = self._table.enable_counting()
        if code:
            raise BridgeUnavailable(f"torch refused the callbacks that count ops (code {code})")
        core.count_scopes(True)

    def disable_counting(self) -> None:
        """Ends that; without it does nothing."""
        core.count_scopes(False)
        with self._lock:
            if _COUNTING not in self._inherited:
                self._table.disable_counting()

    def time_ops(self, count: int) -> int:
        """Runs a small op `count` times on the calling thread, without the GIL; callbacks hear of it.

        Returns:
            The nanoseconds that took; 0 when torch refused it.
        """
        return int(self._table.time_ops(count))

    def device_events(self, kind: str) -> int:
        """What times a kind of device by events in its streams.

        Args:
            kind: "cuda" or "privateuse1".

        Returns:
            Address of its torchprof_device_events, valid for the life of the process; 0 where torch has none.
        """
        return self._table.device_events(_DEVICE_EVENTS.index(kind)) or 0

    def _after_fork_in_child(self) -> None:
        # The thread that held it may have stayed in the parent. (Of the library itself none was inside.)
        self._lock = threading.RLock()
        # Captures and counts stay with the parent. Callbacks that it had stay registered, though with nothing
        # to report to: another of its threads may have held the lock that torch takes to remove one, and in
        # this process nobody would ever release it.
        self._inherited = {_COUNTING, *range(_CAPTURE_SLOTS)}
        self._recording.clear()
        for slot in range(_CAPTURE_SLOTS):
            self._table.disable_memory(slot)


_load_lock = threading.RLock()
_loading = False
_loaded: Bridge | None = None
_unavailable: BridgeUnavailable | None = None


def load_bridge() -> Bridge:
    """The bridge for the torch of this process: loaded once, and compiled first when there is none.

    Raises:
        BridgeUnavailable: there is none and none can be made. A process tries once, not once a capture.
            Or it is called by a signal handler that interrupts the loading.
    """
    global _loaded, _loading, _unavailable
    with _load_lock:
        if _unavailable is not None:
            raise _unavailable
        if _loading:
            raise BridgeUnavailable("this interrupts the loading of the torch bridge: try again later")
        if _loaded is None:
            _loading = True
            try:
                build = installed_torch()
                _loaded = Bridge(locate_bridge(build), build.version, core.core_table_address())
            except BridgeUnavailable as error:
                _unavailable = error
                raise
            finally:
                _loading = False
        return _loaded


def _renew_load_lock() -> None:
    global _load_lock, _loading
    _load_lock = threading.RLock()  # the thread that held it stayed in the parent
    _loading = False


os.register_at_fork(after_in_child=_renew_load_lock)
