"""What a capture can record beside ops: each source is one file here, and works or fails alone."""

from __future__ import annotations

from collections.abc import Iterator

from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable

__all__ = ["Source", "SourceTarget", "SourceUnavailable", "wanted_sources"]


def wanted_sources(options: CaptureOptions) -> Iterator[Source]:
    """The sources that the options ask for, none of them started."""
    yield from ()
