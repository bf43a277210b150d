"""`otel-torchprof convert`: from any format that can be read to any that can be written."""

from __future__ import annotations

import argparse
import glob
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from otel_torchprof.cli_progress import progress_bar
from otel_torchprof.cli_text import OutputConsole, cell, printable, size
from otel_torchprof.errors import TorchprofError, UnreadableInputError
from otel_torchprof.exporters import exporter_names, find_exporter, format_of_path
from otel_torchprof.importers import load

if TYPE_CHECKING:
    from otel_torchprof.cli_text import Commands

_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True)
class Conversion:
    """What became of one input."""

    input: str
    output: str
    input_format: str
    output_format: str
    events: int
    written: dict[str, int]
    problems: dict[str, int]


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "convert",
        help="any recording or trace to any format",
        description="Reads recordings and traces of any known format and writes them for another tool. With "
        "several inputs OUT is a directory, made where it is missing.",
    )
    parser.add_argument("inputs", metavar="IN", nargs="+", help="a file, a directory of files, or a pattern")
    parser.add_argument("output", metavar="OUT", help="what to write; its name tells the format without --to")
    parser.add_argument(
        "--to", metavar="FORMAT", choices=exporter_names(), help=f"one of {', '.join(exporter_names())}"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, for machines")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    inputs = expand_inputs(options.inputs)
    format_name = options.to or format_of_path(options.output)
    pairs = list(zip(inputs, _outputs(inputs, options.output, format_name), strict=True))
    done: list[Conversion] = []
    failures: list[str] = []
    with progress_bar() as progress:
        task = progress.add_task("converting", total=len(pairs))
        for source, target in pairs:
            progress.update(task, description=printable(os.path.basename(source)))
            try:
                done.append(_convert(source, target, format_name))
            except UnreadableInputError as error:
                if len(pairs) == 1:
                    raise
                failures.append(str(error))
            progress.advance(task)
    _print(done, failures, as_json=options.json)
    if failures:
        raise UnreadableInputError(f"{len(failures)} of {len(pairs)} inputs cannot be read: {failures[0]}")
    return 0


def expand_inputs(arguments: Sequence[str]) -> list[str]:
    """The files that arguments name: files as they are, all files of a directory, what fits a pattern.

    Raises:
        UnreadableInputError: an argument names nothing.
    """
    files: list[str] = []
    for argument in arguments:
        if os.path.isdir(argument):
            found = sorted(str(path) for path in Path(argument).rglob("*") if path.is_file())
        elif os.path.lexists(argument) or not glob.has_magic(argument):
            found = [argument]
        else:
            found = sorted(path for path in glob.glob(argument, recursive=True) if os.path.isfile(path))
        if not found:
            raise UnreadableInputError(f"{argument} names no file")
        files += found
    return list(dict.fromkeys(files))


def _outputs(inputs: Sequence[str], output: str, format_name: str) -> list[str]:
    suffixes = find_exporter(format_name).suffixes
    if not suffixes or (len(inputs) == 1 and not _is_directory(output)):
        return [output] * len(inputs)
    if os.path.lexists(output) and not os.path.isdir(output):
        raise TorchprofError(f"{output} is a file: with several inputs OUT is a directory")
    os.makedirs(output, exist_ok=True)
    names = [_stem(path) + suffixes[0] for path in inputs]
    taken: set[str] = set()
    for index, name in enumerate(names):
        number = 1
        while names[index] in taken:
            number += 1
            names[index] = f"{name.removesuffix(suffixes[0])}-{number}{suffixes[0]}"
        taken.add(names[index])
    return [os.path.join(output, name) for name in names]


def _is_directory(path: str) -> bool:
    return path.endswith(os.sep) or os.path.isdir(path)


def _stem(path: str) -> str:
    name = os.path.basename(path)
    for ending in (*_COMPRESSED, ".pt.trace.json"):
        name = name.removesuffix(ending)
    return os.path.splitext(name)[0]


def _convert(source: str, target: str, format_name: str) -> Conversion:
    if os.path.lexists(target) and os.path.isfile(target) and os.path.samefile(source, target):
        raise TorchprofError(f"{source} is both input and output")
    recording, report = load(source)
    written = find_exporter(format_name).export(recording, target)
    return Conversion(
        source, target, report.format, format_name, len(recording), written, dict(report.problems)
    )


def _print(done: Sequence[Conversion], failures: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        document: dict[str, Any] = {"converted": [asdict(item) for item in done], "unreadable": list(failures)}
        print(json.dumps(document, indent=2))
        return
    console = OutputConsole()
    for item in done:
        counts = ", ".join(f"{count:,} {name}" for name, count in item.written.items() if name != "size_bytes")
        console.print(
            cell(f"{item.output}: {item.output_format}, {counts}, {size(item.written.get('size_bytes', 0))}")
        )
        if item.problems:
            problems = ", ".join(f"{name} {count:,}" for name, count in item.problems.items())
            console.print(cell(f"  {item.input} had problems: {problems}"))
