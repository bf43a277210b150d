"""Ops put into a capture as the torch bridge does it, through the table of native/torch/bridge_abi.h."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from otel_torchprof._native import core


class _OpStart(ctypes.Structure):
    _fields_ = (
        ("key", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("overload", ctypes.c_char_p),
        ("sequence", ctypes.c_int64),
        ("torch_thread", ctypes.c_uint64),
        ("forward_thread", ctypes.c_uint64),
        ("scope", ctypes.c_uint8),
        ("is_user", ctypes.c_uint8),
        ("inputs_cut", ctypes.c_uint8),
        ("inputs", ctypes.c_char_p),
        ("inputs_bytes", ctypes.c_size_t),
    )


class _CoreTable(ctypes.Structure):
    _fields_ = (
        ("abi_version", ctypes.c_uint32),
        ("table_bytes", ctypes.c_uint32),
        ("op_start", ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.POINTER(_OpStart))),
        ("op_end", ctypes.CFUNCTYPE(None, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_uint8)),
    )


_keys = count(0x1000, 16)


def begin_op(slot: int, name: str, *, inputs: bytes = b"") -> int:
    """Begins an op on the calling thread and returns its key."""
    key = next(_keys)
    start = _OpStart(
        key=key,
        name=name.encode(),
        overload=b"",
        sequence=-1,
        torch_thread=1,
        inputs=inputs or None,
        inputs_bytes=len(inputs),
    )
    _table().op_start(slot, ctypes.byref(start))
    return key


def end_op(slot: int, key: int) -> None:
    """Ends the op with this key."""
    _table().op_end(slot, key, 0)


@contextmanager
def op(slot: int, name: str, *, inputs: bytes = b"") -> Iterator[None]:
    """An op for as long as the block runs."""
    key = begin_op(slot, name, inputs=inputs)
    yield
    end_op(slot, key)


def _table() -> _CoreTable:
    return _CoreTable.from_address(core.core_table_address())
