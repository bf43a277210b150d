"""`otel-torchprof patterns`: what makes a recorded program slow, where, and how to mend it."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from otel_torchprof.analysis.patterns import (
    Finding,
    Level,
    NotChecked,
    PatternReport,
    SlowStep,
    find_patterns,
)
from otel_torchprof.cli.input import add_command, print_state, require_contents
from otel_torchprof.cli.text import OutputConsole, cell, duration, shortened
from otel_torchprof.importers import load

if TYPE_CHECKING:
    from otel_torchprof.cli.text import Commands

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
    recording, imported = load(options.input)
    require_contents(options.input, recording, imported)
    report = find_patterns(recording, problems=imported.problems)
    if options.json:
        print(json.dumps(_document(report), indent=2))
    else:
        console = OutputConsole()
        _print(console, report)
        print_state(console, recording, imported)
    if options.fail_on is None:
        return 0
    failed = any(
        finding.severity >= _LEVELS[options.fail_on] and finding.confidence > Level.LOW
        for finding in report.findings
    )
    return EXIT_FINDINGS if failed else 0


def _document(report: PatternReport) -> dict[str, Any]:
    return {
        "steps": {"counted": report.steps, "left_out": report.steps_left_out},
        "findings": [_json_finding(finding) for finding in report.findings],
        "slow_step": None if report.slow_step is None else _json_slow_step(report.slow_step),
        "not_checked": [{"pattern": one.pattern, "reason": one.reason} for one in report.not_checked],
    }


def _json_slow_step(step: SlowStep) -> dict[str, Any]:
    return {"number": step.number, "duration_ns": step.duration_ns, "median_ns": step.median_ns}


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
        "cost_per_step_ns": finding.cost_per_step_ns,
        "cost_bytes": finding.cost_bytes,
        "saving_ns": [finding.saving.low_ns, finding.saving.high_ns],
        "also": list(finding.also),
        "advice": finding.advice,
        "example": finding.example,
        "url": finding.url,
    }


def _print(console: OutputConsole, report: PatternReport) -> None:
    for finding in report.findings:
        levels = f"{finding.severity.name.lower()} severity, {finding.confidence.name.lower()} confidence"
        console.print(cell(f"{finding.pattern}: {levels}"))
        console.print(_facts(finding))
        console.print()
    for finding in {finding.pattern: finding for finding in report.findings}.values():
        console.print(cell(f"{finding.pattern}: {finding.advice}"))
        for line in finding.example.splitlines():
            _print_whole(console, f"    {line}")
        _print_whole(console, f"    {finding.url}")
        console.print()
    if report.slow_step is not None:
        if not report.findings:
            console.print("no findings: nothing slow repeats, but one step stands out")
        _print_whole(console, _slow_step_text(report.slow_step))
        console.print()
    elif not report.findings:
        console.print("no findings\n")
    if report.findings and report.steps_left_out:
        console.print(cell(_steps_text(report)))
        console.print()
    _print_not_checked(console, report.not_checked)


def _print_whole(console: OutputConsole, line: str) -> None:
    """A line to copy: a terminal may wrap it, and knows then that it is one."""
    console.print(cell(line), soft_wrap=True)


def _facts(finding: Finding) -> Table:
    """Where, what, and what it costs: a line each, which a terminal may fold."""
    events = f"{finding.count:,} event{'s' if finding.count != 1 else ''}"
    per_step = ""
    if finding.cost_per_step_ns is not None and finding.count_per_step is not None:
        per_step = f"; a step {duration(finding.cost_per_step_ns)}, in {finding.count_per_step:.1f}"
    saving = finding.saving
    facts = {
        "where": str(finding.place) or "the whole program",
        "seen": shortened(finding.detail, _MAX_DETAIL),
        "cost": f"{duration(finding.cost_ns)} in all, in {events}{per_step}",
        "may save": f"{duration(saving.low_ns)} to {duration(saving.high_ns)} in all",
    }
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        table.add_row(f"  {name}", cell(text))
    return table


def _slow_step_text(step: SlowStep) -> str:
    """How slow it was, and where to look."""
    factor = f", {step.duration_ns / step.median_ns:.1f} times the median" if step.median_ns else ""
    if step.number is None:
        return (
            f"a step without a number took {duration(step.duration_ns)}{factor}: report -o shows it on a page"
        )
    took = f"step {step.number} took {duration(step.duration_ns)}{factor}"
    return f"{took}: otel-torchprof report IN --step {step.number} shows what differs in it"


def _steps_text(report: PatternReport) -> str:
    """Which steps figures of a step are of, where it is not all of them."""
    whole = f"{report.steps:,} whole step{'s' if report.steps != 1 else ''}"
    return f"(a step: the mean over {whole}; {report.steps_left_out:,} not recorded whole left out)"


def _print_not_checked(console: OutputConsole, not_checked: Sequence[NotChecked]) -> None:
    """A line for each thing that the recording lacks, and for each pattern that failed."""
    patterns = Counter(need for one in not_checked for need in one.needs)
    if patterns:
        console.print("not checked, as these were not recorded (--json names every pattern):")
    for need, count in patterns.items():
        console.print(cell(f"  {need}: {count} pattern{'s' if count > 1 else ''}"))
    for one in not_checked:
        if not one.needs:
            console.print(cell(f"not checked: {one.pattern}: {one.reason}"))
