"""`otel-torchprof report`: the averages table of a recording, or a page about it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Collection
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from otel_torchprof.analysis.averages import Averages, averages
from otel_torchprof.analysis.modules import ModuleRow, module_tree
from otel_torchprof.analysis.steps import StepTimes
from otel_torchprof.cli.info import describe_steps, step_flags
from otel_torchprof.cli.input import add_command, print_state, require_contents
from otel_torchprof.cli.report_counters import json_counters, print_counters
from otel_torchprof.cli.report_device import json_devices, print_devices, print_work
from otel_torchprof.cli.report_memory import json_memory, print_memory
from otel_torchprof.cli.report_modules import module_json, module_table
from otel_torchprof.cli.report_operators import SORT_KEYS, json_rows, print_operators, sorted_rows
from otel_torchprof.cli.report_step import json_step, print_step
from otel_torchprof.cli.text import OutputConsole, cell, duration, size
from otel_torchprof.errors import TorchprofError
from otel_torchprof.exporters.html_report import write_report
from otel_torchprof.importers import load

if TYPE_CHECKING:
    from otel_torchprof.cli.text import Commands

_DEFAULT_LIMIT = 25
_PAGE_SUFFIXES = (".html", ".htm")
_MAX_STEPS = 5  # above the table; --json has them all


def add_to(commands: Commands) -> None:
    parser = add_command(
        commands,
        "report",
        "the averages table: calls, total, self, mean and share of each operator; or a page for a browser",
        "Groups the events of a recording by name: what ran on threads, then the work on devices. Total "
        "counts a call inside one of its own kind once; self is the time that no enclosed event covers; "
        "share is the part of all self time on threads, or of all work on devices; with --step, on threads, "
        "of the time that the step lasted. With -o it writes a page with steps, operators, a flame graph and "
        "devices instead: one file that needs no other.",
    )
    parser.add_argument("-o", "--output", metavar="PAGE.html", type=Path, help="write a page for a browser")
    parser.add_argument("--sort", choices=SORT_KEYS, default="self", help="by this column (default: self)")
    parser.add_argument(
        "--limit",
        type=_limit,
        default=None,
        metavar="N",
        help=f"rows to show, 0 = all (default: {_DEFAULT_LIMIT}, with --json all)",
    )
    parser.add_argument(
        "--step",
        type=_step_number,
        action="append",
        metavar="N",
        help="count only what is in this step, as the numbers above the table; may be repeated; of one "
        "step also what differs in it from the median step",
    )
    parser.add_argument("--group-by-shapes", action="store_true", help="a row for each set of input shapes")
    parser.set_defaults(run=run)


def _limit(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return int(text)


def _step_number(text: str) -> int:
    if not text.removeprefix("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not the number of a step")
    return int(text)


def run(options: argparse.Namespace) -> int:
    if options.output is not None and options.step is not None:
        raise TorchprofError("--step is for the table: in a page the steps are chosen by a click")
    if options.output is not None and options.output.suffix.lower() not in _PAGE_SUFFIXES:
        raise TorchprofError(
            f"{options.output} is no name for a page: end it in .html; convert writes other formats"
        )
    recording, imported = load(options.input)
    require_contents(options.input, recording, imported)
    if options.output is not None:
        written = write_report(
            recording, options.output, title=Path(options.input).name, problems=imported.harmful
        )
        _print_written(options.output, written, as_json=options.json)
        return 0
    if options.group_by_shapes and not recording.input_shape_ids().any():
        raise TorchprofError(
            "--group-by-shapes: the recording has no shapes of inputs; record_shapes records them"
        )
    table = averages(recording, options.group_by_shapes, options.step)
    rows = sorted_rows(table.rows, options.sort)
    limit = options.limit if options.limit is not None else 0 if options.json else _DEFAULT_LIMIT
    # All that is not the table is about the whole recording.
    is_whole = options.step is None
    modules = module_tree(recording).rows if is_whole else []
    times = StepTimes.of(recording, imported.problems)
    steps = describe_steps(recording, times)
    if options.json:
        document: dict[str, Any] = {
            "rows": json_rows(rows[:limit] if limit else rows),
            **_totals(table),
            "steps": steps,
        }
        if is_whole:
            document |= {
                "modules": module_json(modules),
                **json_counters(recording),
                **json_memory(recording),
                **json_devices(recording),
            }
        else:
            document |= json_step(recording, times, options.step)
        print(json.dumps(document, indent=2))
        return 0
    console = OutputConsole()
    _print_steps(console, steps, options.step)
    print_operators(
        console,
        rows,
        sort=options.sort,
        limit=limit,
        with_shapes=options.group_by_shapes,
        steps_ns=table.steps_ns,
    )
    print_work(console, recording, options.step, limit)
    if options.step is not None:
        print_step(console, recording, times, options.step)
    if is_whole:
        print_devices(console, recording)
        print_memory(console, recording)
        print_counters(console, recording)
    _print_modules(console, modules, limit)
    print_state(console, recording, imported)
    for note in imported.notes:
        console.print(cell(f"note: {note}"))
    return 0


def _print_steps(console: OutputConsole, steps: list[dict[str, Any]], wanted: Collection[int] | None) -> None:
    """The slowest steps of all, or of those wanted; nothing for a recording without steps.

    Steps of which a part alone was recorded come last: how long they took is not known.
    """
    if not steps:
        return
    lasted_ns = [step["end_ns"] - step["start_ns"] for step in steps]
    is_whole = [not step_flags(step) for step in steps]
    shown = sorted(
        (place for place, step in enumerate(steps) if wanted is None or step["number"] in wanted),
        key=lambda place: (not is_whole[place], -lasted_ns[place]),
    )
    texts: list[str] = []
    for place in shown[:_MAX_STEPS]:
        facts = ", ".join(filter(None, (duration(lasted_ns[place]), step_flags(steps[place]))))
        texts.append(f"{steps[place]['number']} ({facts})")
    if len(shown) > len(texts):
        texts.append(f"{len(shown) - len(texts)} more (--json shows all)")
    head = f"{len(steps):,} step{'s' if len(steps) != 1 else ''}"
    whole_ns = [ns for ns, whole in zip(lasted_ns, is_whole, strict=True) if whole]
    if 0 < len(whole_ns) < len(steps):
        head += f", {len(whole_ns):,} of them whole"
    if len(whole_ns) > 1:
        head += f", median {duration(median(whole_ns))}"
    if wanted is not None:
        head += "; in the table only"
    elif len(steps) > 1:
        head += "; slowest first"
    console.print(cell(f"{head}: {', '.join(texts)}"))
    if wanted is None and len(steps) > 1:
        console.print(cell(f"(--step {steps[shown[0]]['number']} shows what is in the slowest alone)"))
    console.print()


def _print_modules(console: OutputConsole, modules: list[ModuleRow], limit: int) -> None:
    if not modules:
        return
    shown = modules[:limit] if limit else modules
    console.print()
    console.print(module_table(shown))
    if len(shown) < len(modules):
        console.print(f"... {len(modules) - len(shown)} more modules (--limit 0 shows all)")


def _print_written(page: Path, written: dict[str, int], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"output": str(page), **written}, indent=2))
        return
    text = f"{page}: {written['events']:,} events in {size(written['size_bytes'])}"
    OutputConsole().print(cell(text))


def _totals(table: Averages) -> dict[str, int]:
    totals = {"calls": int(table.calls.sum()), "self_ns": int(table.self_ns.sum())}
    return totals if table.steps_ns is None else {**totals, "steps_ns": table.steps_ns}
