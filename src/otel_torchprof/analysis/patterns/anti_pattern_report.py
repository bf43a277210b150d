"""`report_all_anti_patterns`, as `torch.profiler._pattern_matcher` has it, and its JSON file."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Protocol

from otel_torchprof.analysis.patterns.finding import Finding, Level, Numbers
from otel_torchprof.analysis.patterns.matcher import find_patterns
from otel_torchprof.analysis.patterns.view import View
from otel_torchprof.recording import Recording

JSON_REPORT = "torchtidy_report.json"
_RULE = f"{'-' * 40}TorchTidy Report{'-' * 40}"
_NO_FILE = "unknown"  # what findings are listed under that no Python function is known of
_MS = 1_000_000


class HasRecording(Protocol):
    """A profile that was stopped."""

    @property
    def recording(self) -> Recording:
        """What was recorded."""


def report_all_anti_patterns(
    prof: HasRecording,
    should_benchmark: bool = False,
    print_enable: bool = True,
    json_report_dir: str | os.PathLike[str] | None = None,
) -> None:
    """Prints what was found in a profile, and writes it to a JSON file.

    Findings of low confidence are left out. Nothing fails where no source line is known.

    Args:
        prof: a profile that was stopped.
        should_benchmark: also print what mending is estimated to save. Nothing is run for that.
        print_enable: whether to print.
        json_report_dir: where to write `torchtidy_report.json`; what it says of other files stays.

    Raises:
        OSError: the file cannot be written.
        ValueError: there is a file of that name that is not such a report.
    """
    findings = [one for one in find_patterns(prof.recording).findings if one.confidence > Level.LOW]
    if json_report_dir is not None:
        _write(findings, Path(json_report_dir) / JSON_REPORT)
    if print_enable:
        print("\n".join(_lines(findings, should_benchmark)))


def rows_named(recording: Recording, pattern: str) -> Numbers:
    """Rows of the events whose name a regular expression matches somewhere: torch's `NamePattern`."""
    return View(recording).where_name(re.compile(pattern).search).nonzero()[0]


def _lines(findings: list[Finding], with_savings: bool) -> list[str]:
    matched = [f"{one.title}. {one.advice}\n[Source Code Location] {one.place}" for one in findings]
    summary = []
    for one in findings:
        saving = one.saving
        estimate = f" Estimated saving: {saving.low_ns / _MS:.2f} to {saving.high_ns / _MS:.2f} ms."
        summary.append(f"{one.title}: {one.count} events matched.{estimate if with_savings else ''}")
    return [_RULE, "Matched Events:", *matched, "Summary:", *summary, _RULE]


def _write(findings: list[Finding], path: Path) -> None:
    report: dict[str, object] = {}
    if path.exists():
        report = json.loads(path.read_text("utf-8"))
        if not isinstance(report, dict):
            raise ValueError(f"{path} holds something else: remove it or choose another folder")
    by_file: dict[str, list[dict[str, object]]] = {}
    for one in findings:
        by_file.setdefault(one.place.file or _NO_FILE, []).append(
            {
                "line_number": one.place.line,
                "name": one.title,
                "url": one.url,
                "message": f"{one.detail}. {one.advice}",
            }
        )
    whole = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        whole.write_text(json.dumps({**report, **by_file}, indent=4), "utf-8")
        whole.replace(path)
    finally:
        whole.unlink(missing_ok=True)
