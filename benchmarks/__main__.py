"""Runs every benchmark module of this folder and prints one table.

A benchmark is a module that offers `run(quick: bool) -> list[Row]`; adding a file adds its rows.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import platform
import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.rows import Row, Target


def find_benchmarks(folder: Path) -> list[str]:
    """The modules in `folder` that define `run`, read without importing them: one that cannot be imported
    on this machine must not hide the others."""
    return [path.stem for path in sorted(folder.glob("*.py")) if _defines_run(path)]


def _defines_run(path: Path) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    return any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _target(target: Target | None) -> str:
    if target is None:
        return "reported"
    sign = "<=" if target.kind == "at most" else ">="
    return f"{sign} {_number(target.limit)}{' x' if target.of == 'ratio' else ''}"


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return ""
    text = f"{row.ratio:.3g} x"
    if row.ratio_quartiles is not None:
        first, third = row.ratio_quartiles
        text += f" ({first:.3g} to {third:.3g})"
    return text


def make_table(rows: list[Row]) -> Table:
    """The table of all rows, targets not met in red."""
    table = Table(title=f"otel-torchprof on {platform.machine()}, Python {platform.python_version()}")
    table.add_column("what")
    for heading in ("ours", "unit"):
        table.add_column(heading, justify="right" if heading == "ours" else "left")
    table.add_column("anchor")
    for heading in ("anchor's", "ratio", "target"):
        table.add_column(heading, justify="right")
    table.add_column("met")
    verdicts = {True: "[green]yes[/]", False: "[red]no[/]", None: ""}
    for row in rows:
        table.add_row(
            escape(row.name),
            _number(row.ours),
            escape(row.unit),
            escape(row.anchor_name),
            "" if row.anchor is None else _number(row.anchor),
            _ratio(row),
            _target(row.target),
            verdicts[row.met],
        )
    return table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="only these modules (default: all)")
    parser.add_argument("--quick", action="store_true", help="fewer repeats: a smoke test, not a measurement")
    options = parser.parse_args(arguments)

    benchmarks = find_benchmarks(Path(__file__).parent)
    if unknown := sorted(set(options.names) - set(benchmarks)):
        parser.error(f"no benchmark named {', '.join(unknown)}; there are: {', '.join(benchmarks)}")

    # A table in a file or a log is read whole, never folded to a terminal's width.
    console, progress = Console(width=None if sys.stdout.isatty() else 200), Console(stderr=True)
    rows: list[Row] = []
    failed: list[str] = []
    for name in options.names or benchmarks:
        progress.print(f"measuring {name} ...", highlight=False)
        try:
            rows.extend(importlib.import_module(f"benchmarks.{name}").run(options.quick))
        except Exception as error:  # one benchmark that cannot run here must not hide the others' figures
            progress.print(f"{name} did not run: {type(error).__name__}: {error}", style="red", markup=False)
            failed.append(name)
    console.print(make_table(rows))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
