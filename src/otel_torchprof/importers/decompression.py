"""Compressed files in pieces of bounded size, whatever they unpack to."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, Protocol

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_GZIP_WBITS = 31
_BLOCK_BYTES = 1 << 20
# zstd's unpacker gives all that its input makes at once: up to 128 KiB for each four bytes.
_ZSTD_INPUT_BYTES = 1 << 10
_ZSTD_MAX_WINDOW_BYTES = 1 << 27


class CutOffError(Exception):
    """The compressed data ends before its end mark, or is damaged from here on."""


def gzip_blocks(file: BinaryIO) -> Iterator[bytes]:
    """The content of all members of a gzip file; CutOffError after what could be unpacked."""
    return _blocks(file, GZIP_MAGIC, _BLOCK_BYTES, lambda: zlib.decompressobj(_GZIP_WBITS), zlib.error)


def zstd_blocks(file: BinaryIO) -> Iterator[bytes]:
    """The content of all frames of a zstd file; CutOffError after what could be unpacked.

    Raises:
        ImportError: `zstandard` is not installed.
    """
    import zstandard

    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW_BYTES)
    return _blocks(
        file,
        ZSTD_MAGIC,
        _ZSTD_INPUT_BYTES,
        lambda: _ZstdUnpacker(decompressor.decompressobj()),
        zstandard.ZstdError,
    )


class _Unpacker(Protocol):
    """Of one gzip member or zstd frame, as `zlib.decompressobj` is."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


class _ZstdUnpacker:
    unconsumed_tail = b""

    def __init__(self, unpacker: Any) -> None:
        self._unpacker = unpacker

    @property
    def eof(self) -> bool:
        return bool(self._unpacker.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._unpacker.unused_data)

    def decompress(self, data: bytes, _max_length: int, /) -> bytes:
        return bytes(self._unpacker.decompress(data))


def _blocks(
    file: BinaryIO, magic: bytes, input_bytes: int, start: Callable[[], _Unpacker], error: type[Exception]
) -> Iterator[bytes]:
    unpacker = start()
    pending = b""
    while True:
        pending = pending or file.read(input_bytes)
        if not pending:
            if not unpacker.eof:
                raise CutOffError
            return
        if unpacker.eof:
            if not pending.startswith(magic[: len(pending)]):
                return  # padding after the last member
            unpacker = start()
        try:
            block = unpacker.decompress(pending, _BLOCK_BYTES)
        except error:
            raise CutOffError from None
        pending = unpacker.unused_data if unpacker.eof else unpacker.unconsumed_tail
        if block:
            yield block
