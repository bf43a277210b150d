"""Opens the file to be imported: only regular files, decompressed within bounds, known by their content."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers.decompression import (
    GZIP_MAGIC,
    ZSTD_MAGIC,
    CutOffError,
    gzip_blocks,
    zstd_blocks,
)
from otel_torchprof.importers.limits import DEFAULT_LIMITS, ImportLimits

HEAD_BYTES = 64 * 1024
_BLOCK_BYTES = 1 << 20


class InputFile:
    """A file to be imported.

    Args:
        path: where it is.
        limits: bounds on its decompressed size.

    Raises:
        UnreadableInputError: it does not exist, is no regular file, must not be read, or is too large.
    """

    def __init__(self, path: str | os.PathLike[str], limits: ImportLimits = DEFAULT_LIMITS) -> None:
        self.path = Path(path)
        self.limits = limits
        self.truncated = False
        """Set by reading: the compressed data ended before its end mark."""
        self._file = _open_regular(self.path)
        self.compressed_bytes = os.fstat(self._file.fileno()).st_size
        magic = self._file.read(4)
        self._file.seek(0)
        self.compression = "gzip" if magic.startswith(GZIP_MAGIC) else "zstd" if magic == ZSTD_MAGIC else ""
        self.head = self._read_head()

    def __enter__(self) -> InputFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self) -> bytearray:
        """The whole content, decompressed.

        A compressed file that is cut off or damaged yields what came before the damage, and sets
        `truncated`.

        Raises:
            UnreadableInputError: it is larger than the limits allow.
        """
        self._file.seek(0)
        if not self.compression:
            self._require_within_limits(self.compressed_bytes)
            content = bytearray(self.compressed_bytes)
            del content[self._file.readinto(content) :]  # type: ignore[attr-defined]
            return content
        content = bytearray()
        for piece in self.pieces():
            content += piece
        return content

    def pieces(self) -> Iterator[bytes]:
        """The content as `read` returns it, about a megabyte at a time.

        Raises:
            UnreadableInputError: it is larger than the limits allow.
        """
        self._file.seek(0)
        size_bytes = 0
        for block in self._blocks():
            size_bytes += len(block)
            self._require_within_limits(size_bytes)
            yield block

    def _read_head(self) -> bytes:
        head = bytearray()
        for block in self._blocks():
            head += block[:HEAD_BYTES]
            if len(head) >= HEAD_BYTES:
                break
        self.truncated = False
        return bytes(head[:HEAD_BYTES])

    def _require_within_limits(self, size_bytes: int) -> None:
        limits = self.limits
        if size_bytes > limits.max_size_bytes:
            raise UnreadableInputError(
                f"{self.path} holds more than {limits.max_size_bytes:,} bytes: raise max_size_bytes"
            )
        if not self.compression or size_bytes <= limits.ratio_free_bytes:
            return
        if size_bytes > self.compressed_bytes * limits.max_compression_ratio:
            raise UnreadableInputError(
                f"{self.path} unpacks to more than {limits.max_compression_ratio} times its size, "
                "as no trace does: raise max_compression_ratio"
            )

    def _blocks(self) -> Iterator[bytes]:
        if not self.compression:
            yield from iter(lambda: self._file.read(_BLOCK_BYTES), b"")
            return
        try:
            yield from (gzip_blocks if self.compression == "gzip" else zstd_blocks)(self._file)
        except CutOffError:
            self.truncated = True
        except ImportError:
            raise UnreadableInputError(
                f"{self.path} is compressed with zstd: pip install 'otel-torchprof[zstd]' to read it"
            ) from None


def _open_regular(path: Path) -> BinaryIO:
    try:
        # Without O_NONBLOCK opening a pipe would wait for its writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise UnreadableInputError(f"{path} cannot be read: {os.strerror(error.errno or 0)}") from None
    except ValueError as error:
        raise UnreadableInputError(f"{path!s} is no path: {error}") from None
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        what = "is a folder: name a file in it" if stat.S_ISDIR(mode) else "is not a file"
        raise UnreadableInputError(f"{path} {what}")
    return os.fdopen(descriptor, "rb")
