"""`otel-torchprof patterns`: what makes a recorded program slow, where, and how to mend it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from rich.table import Table

from otel_torchprof.analysis.patterns import Finding, Level, PatternReport, find_patterns
from otel_torchprof.cli_input import add_command
from otel_torchprof.cli_text import NameCell, OutputConsole, cell, duration, printable, shortened
from otel_torchprof.importers import load

if TYPE_CHECKING:
    from otel_torchprof.cli_text import Commands

EXIT_FINDINGS = 1
_MAX_DETAIL = 300  # of what was seen, which may name kernels; --json has it whole
_LEVELS = {level.name.lower(): level for level in Level}


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "patterns",
        "what makes the program slow, where, and how to mend it",
        "Looks for known causes of slowness and says what mending each may save. What the recording holds "
        "too little for is listed as not checked, with what it needs. docs/patterns.md has each pattern.",
    )
    parser.add_argument(
        "--fail-on",
        choices=_LEVELS,
        help="exit with 1 if there is a finding that is at least this severe (and not of low confidence)",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    recording, _imported = load(options.input)
    report = find_patterns(recording)
    if options.json:
        print(json.dumps(_document(report), indent=2))
    else:
        _print(OutputConsole(), report)
    if options.fail_on is None:
        return 0
    failed = any(
        finding.severity >= _LEVELS[options.fail_on] and finding.confidence > Level.LOW
        for finding in report.findings
    )
    return EXIT_FINDINGS if failed else 0


def _document(report: PatternReport) -> dict[str, Any]:
    return {
        "findings": [_json_finding(finding) for finding in report.findings],
        "not_checked": [{"pattern": one.pattern, "reason": one.reason} for one in report.not_checked],
    }


def _json_finding(finding: Finding) -> dict[str, Any]:
    place = finding.place
    return {
        "pattern": finding.pattern,
        "title": finding.title,
        "severity": finding.severity.name.lower(),
        "confidence": finding.confidence.name.lower(),
        "where": {
            "file": place.file,
            "line": place.line,
            "function": place.function,
            "module": place.module,
            "op": place.op,
        },
        "detail": finding.detail,
        "events": finding.rows.tolist(),
        "count_per_step": finding.count_per_step,
        "cost_ns": finding.cost_ns,
        "cost_bytes": finding.cost_bytes,
        "saving_ns": [finding.saving.low_ns, finding.saving.high_ns],
        "also": list(finding.also),
        "advice": finding.advice,
        "example": finding.example,
        "url": finding.url,
    }


def _print(console: OutputConsole, report: PatternReport) -> None:
    if report.findings:
        console.print(_make_table(report.findings))
        for finding in {finding.pattern: finding for finding in report.findings}.values():
            console.print()
            console.print(cell(f"{finding.pattern}: {finding.advice}"))
            for line in finding.example.splitlines():
                console.print(cell(f"    {line}"))
            console.print(cell(f"    {finding.url}"))
    else:
        console.print("no findings")
    if report.not_checked:
        console.print()
        console.print("not checked:")
        for one in report.not_checked:
            console.print(cell(f"  {one.pattern}: {one.reason}"))


def _make_table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("severity", "confidence", "pattern", "where", "seen"):
        table.add_column(heading, overflow="fold")
    for heading in ("a step", "cost", "may save"):
        table.add_column(heading, justify="right", no_wrap=True)
    for finding in findings:
        saving = finding.saving
        table.add_row(
            finding.severity.name.lower(),
            finding.confidence.name.lower(),
            cell(finding.pattern),
            NameCell(finding.place),
            cell(shortened(finding.detail, _MAX_DETAIL)),
            "" if finding.count_per_step is None else f"{finding.count_per_step:.1f}",
            duration(finding.cost_ns),
            printable(f"{duration(saving.low_ns)} to {duration(saving.high_ns)}"),
        )
    return table
