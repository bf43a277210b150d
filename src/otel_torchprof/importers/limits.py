"""Bounds on what an import takes, so that no file can exhaust the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ImportLimits:
    """Bounds of one import; more than that is refused, or cut and counted."""

    max_size_bytes: int = 8 << 30
    """Of a file, after decompression."""
    max_compression_ratio: int = 250
    """Decompressed bytes a compressed byte, from `ratio_free_bytes` on; traces compress to 3 to 10 %."""
    ratio_free_bytes: int = 64 << 20
    """Decompressed bytes that no ratio is asked of."""
    max_name_characters: int = 65_536
    """Of a name; longer ones are cut and counted."""
    max_objects_bytes: int = 16 << 30
    """Of the objects that a pickle becomes."""


DEFAULT_LIMITS = ImportLimits()
