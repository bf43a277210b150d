"""How the texts of settings are read. What a reader does not take is a ValueError with the reason."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from enum import Enum
from pathlib import Path

# What native code takes: the spans and bytes of a trace, microseconds as nanoseconds in 64 bits, and the
# size of a recording, whose references are 32 bits wide.
_MAX_COUNT = 2**63 - 1
MAX_DURATION_US = 10.0**15
MAX_BUFFER_SIZE_MB = 32 * 1024
MAX_PORT = 65_535


def boolean(text: str) -> bool:
    """True or false, in the words that people use."""
    is_true = text.lower() in ("true", "1", "yes", "on")
    if not is_true and text.lower() not in ("false", "0", "no", "off"):
        raise ValueError("neither true nor false")
    return is_true


def choice(kind: type[Enum]) -> Callable[[str], Enum]:
    """Reads a member of an enumeration by its value."""

    def parse(text: str) -> Enum:
        try:
            return kind(text.lower())
        except ValueError:
            raise ValueError("unknown word") from None

    return parse


def number(
    *, above: float | None = None, least: float | None = None, most: float = math.inf
) -> Callable[[str], float]:
    """Reads a finite number within bounds."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise ValueError("not a number") from None
        if (
            not math.isfinite(value)
            or (above is not None and value <= above)
            or (least is not None and value < least)
            or value > most
        ):
            raise ValueError("out of range")
        return value

    return parse


def whole_number(least: int, most: int = _MAX_COUNT) -> Callable[[str], int]:
    """Reads a whole number within bounds."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError("not a whole number") from None
        if not least <= value <= most:
            raise ValueError("out of range")
        return value

    return parse


# As `perf list` has them. Between the slashes of an event of a unit, `cpu/event=0x3c,umask=0x1/`, commas are
# part of the name.
_COUNTER_NAME = re.compile(r"[A-Za-z][\w.:-]{0,63}(/[\w.=,-]{1,128}/:?[a-z]*)?", re.ASCII)
_BETWEEN_COUNTERS = re.compile(r",(?=(?:[^/]*/[^/]*/)*[^/]*$)")

_SIZE_UNITS = {"kib": 2**10, "mib": 2**20, "gib": 2**30, "kb": 10**3, "mb": 10**6, "gb": 10**9, "b": 1}


def size_bytes(text: str) -> int:
    """A number of bytes, as `2MB`, `2 MiB` or without a unit."""
    lowered = text.lower().replace(" ", "")
    for suffix, factor in _SIZE_UNITS.items():
        if lowered.endswith(suffix):
            return int(number(least=0, most=_MAX_COUNT // factor)(lowered.removesuffix(suffix)) * factor)
    return whole_number(0)(lowered)


def counter_names(text: str) -> tuple[str, ...]:
    """Names of perf events between commas."""
    names = tuple(name.strip() for name in _BETWEEN_COUNTERS.split(text.rstrip(", ")))
    for name in names:
        if not _COUNTER_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name of an event")
    return names


def word(*accepted: str) -> Callable[[str], str]:
    """Reads one of a few words."""

    def parse(text: str) -> str:
        if text.lower() not in accepted:
            raise ValueError("unknown word")
        return text.lower()

    return parse


def absolute_path(text: str) -> Path:
    """A path, from the directory of now."""
    # Now: a program that changes its directory later must not move its recordings.
    return Path(text).absolute()


def run_id(text: str) -> str:
    """An id of a run: a short text."""
    if not text.isprintable() or len(text) > 128:
        raise ValueError("too long or with control characters")
    return text


def function_name(text: str) -> str:
    """`package.module:function`."""
    # Imported when it is needed: the path of the program is not set yet when the environment is read.
    module, _, function = text.partition(":")
    if not all(name.isidentifier() for path in (module, function) for name in path.split(".")):
        raise ValueError("not the name of a function")
    return text


def host(text: str) -> str:
    """A host name or an address."""
    if not text.isprintable() or any(char.isspace() or char in "/@[]" for char in text):
        raise ValueError("not a host name or address")
    return text
