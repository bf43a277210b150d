"""What is mounted where, as this process sees it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Spaces and the like, which separate fields, as \040.
_ESCAPED = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system.

    Attributes:
        root: the folder of that file system that is seen.
        point: the folder where it is seen.
        kind: its type, such as ext4.
        options: those of the file system itself.
    """

    root: str
    point: str
    kind: str
    options: tuple[str, ...]


def read_mounts(mountinfo: Path = Path("/proc/self/mountinfo")) -> Iterator[Mount]:
    """All mounts, in the order they were made.

    Raises:
        OSError: `mountinfo` cannot be read.
    """
    for line in mountinfo.read_bytes().splitlines():
        before, _, after = line.partition(b" - ")
        fields, details = before.split(b" "), after.split(b" ")
        if len(fields) >= 5 and len(details) >= 3:
            root, point, kind, options = map(_unescaped, (fields[3], fields[4], details[0], details[2]))
            yield Mount(root, point, kind, tuple(options.split(",")))


def _unescaped(field: bytes) -> str:
    plain = _ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), field)
    return plain.decode("utf-8", errors="surrogateescape")
