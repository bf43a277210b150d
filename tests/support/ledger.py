"""An allocator for torch that keeps books of its own."""

from __future__ import annotations

import ctypes
import functools
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from otel_torchprof.recorder.bridge_build import compile_library
from otel_torchprof.recorder.torch_build import TorchBuild

_SOURCES = Path(__file__).parent / "native"


@functools.cache
def ledger_library() -> ctypes.CDLL:
    """The library, compiled once a process and never unloaded: tensors need its deleter."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "ledger_allocator.so"
        source = _SOURCES / "ledger_allocator.cpp"
        compile_library(TorchBuild.of(torch), [source], _SOURCES, path, environ=os.environ)
        library = ctypes.CDLL(str(path))
    for name in ("ledger_live_bytes", "ledger_allocations", "ledger_frees"):
        getattr(library, name).restype = ctypes.c_int64
    for name in ("current_allocator", "current_raw_deleter"):
        getattr(library, name).restype = ctypes.c_size_t
    library.raw_round_trip.argtypes = (ctypes.c_size_t,)
    return library


class Ledger:
    """What was allocated and freed since the books were opened."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    def open(self) -> None:
        """Forgets every block so far."""
        self._library.ledger_open()

    @property
    def live_bytes(self) -> int:
        """Allocated since and not freed yet."""
        return int(self._library.ledger_live_bytes())

    @property
    def allocations(self) -> int:
        """How many, of one byte or more."""
        return int(self._library.ledger_allocations())

    @property
    def frees(self) -> int:
        """How many of those."""
        return int(self._library.ledger_frees())


@contextmanager
def ledger_beneath(*, with_contexts: bool = False) -> Iterator[Ledger]:
    """Sets the allocator; what is set in front of it inside must be gone again at the end."""
    library = ledger_library()
    library.ledger_install(int(with_contexts))
    try:
        yield Ledger(library)
    finally:
        assert library.ledger_uninstall() == 1
