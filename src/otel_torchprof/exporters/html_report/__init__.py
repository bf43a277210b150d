"""A page about a recording, for a browser: one self-contained file, small whatever the recording.

`report_data` reduces the recording to what `page` shows.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from otel_torchprof.exporters.html_report.page import make_page
from otel_torchprof.exporters.html_report.report_data import report_data
from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.recording import Recording

_NO_PROBLEMS: Mapping[str, int] = {}


def write_report(
    recording: Recording,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    problems: Mapping[str, int] = _NO_PROBLEMS,
) -> dict[str, int]:
    """Writes the page; what had the name is replaced once all is written.

    Args:
        title: of the page, such as the name of the file that was read; None takes it from `path`.
        problems: what was wrong with that file, by name, besides what the recording itself says.

    Returns:
        The `events` it covers and its `size_bytes`.

    Raises:
        OSError: writing failed; nothing was left behind.
    """
    path = Path(path)
    data = report_data(recording, title=path.name if title is None else title, problems=problems)
    page = make_page(data)
    with OutputFile(path) as file:
        file.write(page)
    return {"events": len(recording), "size_bytes": file.size_bytes}
