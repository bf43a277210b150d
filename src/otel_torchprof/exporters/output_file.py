"""A file that gets its name only when it is complete."""

from __future__ import annotations

import itertools
import os
import zlib
from pathlib import Path
from types import TracebackType
from typing import Literal

_GZIP_WBITS = 31
_numbers = itertools.count()


class OutputFile:
    """Takes bytes for a file (mode 0600), which replaces what had its name when the `with` block ends well.

    Args:
        path: the file; gzip where the name ends in `.gz`.
        gzip_level: 1 (fast) to 6 (small).

    Raises:
        OSError: it cannot be written; nothing is left behind.
    """

    def __init__(self, path: Path, *, gzip_level: Literal[1, 2, 3, 4, 5, 6] = 3) -> None:
        self.path = path
        self.size_bytes = 0
        # Short, because the name of the file itself may be as long as a name can be.
        self._temporary = self.path.parent / f".torchprof-{os.getpid()}-{next(_numbers)}.tmp"
        is_gzip = path.name.lower().endswith(".gz")
        self._compressor = zlib.compressobj(gzip_level, wbits=_GZIP_WBITS) if is_gzip else None
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = -1
        try:
            self._descriptor = os.open(self._temporary, flags, 0o600)
        except OSError as error:
            raise self._named(error) from None
        except BaseException:  # a signal, which may have come when the file was there already
            self._discard()
            raise

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc_type is not None:
            self._discard()
            return
        try:
            self._publish()
        except BaseException:
            self._discard()
            raise

    def write(self, data: bytes) -> None:
        """Appends bytes."""
        self._write_whole(self._compressor.compress(data) if self._compressor else data)

    def _write_whole(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError as error:
            raise self._named(error) from None
        self.size_bytes += len(data)

    def _publish(self) -> None:
        if self._compressor is not None:
            self._write_whole(self._compressor.flush())
        try:
            self._close()  # some file systems report a full disk no earlier than here
            self._temporary.replace(self.path)
        except OSError as error:
            raise self._named(error) from None

    def _discard(self) -> None:
        self._temporary.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _named(self, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, str(self.path))
