"""`otel-torchprof convert`: from any format that can be read to any that can be written."""

from __future__ import annotations

import argparse
import glob
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from otel_torchprof.cli.input import file_name
from otel_torchprof.cli.progress import progress_bar
from otel_torchprof.cli.text import OutputConsole, cell, printable, size
from otel_torchprof.errors import NothingToWriteError, TorchprofError, UnreadableInputError
from otel_torchprof.exporters import exporter_names, find_exporter, format_of_path
from otel_torchprof.importers import load

if TYPE_CHECKING:
    from otel_torchprof.cli.text import Commands

_ENDINGS = (".gz", ".zst", ".pt.trace.json")


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
    warnings: list[str]
    notes: list[str]


def add_to(commands: Commands) -> None:
    parser = commands.add_parser(
        "convert",
        help="any recording or trace to any format",
        description="Reads recordings and traces of any known format and writes them for another tool. With "
        "several inputs OUT is a directory, made where it is missing.",
    )
    parser.add_argument(
        "inputs", metavar="IN", type=file_name, nargs="+", help="a file, a directory of files, or a pattern"
    )
    parser.add_argument(
        "output", metavar="OUT", type=file_name, help="what to write; its name tells the format without --to"
    )
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
            progress.update(task, description=printable(source.name))
            try:
                done.append(_convert(source, target, format_name))
            except (UnreadableInputError, NothingToWriteError) as error:
                if len(pairs) == 1:
                    raise
                failures.append(str(error))
            progress.advance(task)
    _print(done, failures, as_json=options.json)
    if failures:
        raise TorchprofError(f"{len(failures)} of {len(pairs)} inputs cannot be converted: {failures[0]}")
    return 0


def expand_inputs(arguments: Sequence[str]) -> list[Path]:
    """The files that arguments name: files as they are, all files of a directory, what fits a pattern.

    Raises:
        UnreadableInputError: an argument names nothing.
    """
    files: list[Path] = []
    for argument in arguments:
        path = Path(argument)
        if path.is_dir():
            found = sorted(item for item in path.rglob("*") if item.is_file())
        elif os.path.lexists(path) or not glob.has_magic(argument):
            found = [path]
        else:
            found = sorted(item for item in _matches(path) if item.is_file())
        if not found:
            raise UnreadableInputError(f"{argument} names no file")
        files += found
    return list(dict.fromkeys(files))


def _matches(pattern: Path) -> Iterable[Path]:
    try:
        return Path(pattern.anchor).glob(str(pattern.relative_to(pattern.anchor)))
    except ValueError as error:
        raise UnreadableInputError(f"{pattern} is no pattern: {error}") from None


def _outputs(inputs: Sequence[Path], output: str, format_name: str) -> list[Path]:
    suffixes = find_exporter(format_name).suffixes
    path = Path(output)
    is_directory = output.endswith(os.sep) or path.is_dir()
    if not suffixes or (len(inputs) == 1 and not is_directory):
        return [path] * len(inputs)
    if path.exists() and not path.is_dir():
        raise TorchprofError(f"{output} is a file: with several inputs OUT is a directory")
    path.mkdir(parents=True, exist_ok=True)
    outputs: list[Path] = []
    for source in inputs:
        number, target = 1, path / (_stem(source) + suffixes[0])
        while target in outputs:
            number += 1
            target = path / f"{_stem(source)}-{number}{suffixes[0]}"
        outputs.append(target)
    return outputs


def _stem(path: Path) -> str:
    name = path.name
    for ending in _ENDINGS:
        name = name.removesuffix(ending)
    return Path(name).stem


def _convert(source: Path, target: Path, format_name: str) -> Conversion:
    if target.is_file() and source.exists() and target.samefile(source):
        raise TorchprofError(f"{source} is both input and output")
    recording, report = load(source)
    written = find_exporter(format_name).export(recording, target)
    return Conversion(
        str(source),
        str(target),
        report.format,
        format_name,
        len(recording),
        written,
        dict(report.problems),
        report.warnings,
        report.remarks,
    )


def _print(done: Sequence[Conversion], failures: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        converted = [asdict(item) for item in done]
        print(json.dumps({"converted": converted, "unreadable": list(failures)}, indent=2))
        return
    console = OutputConsole()
    for item in done:
        counts = _listed({**item.written, "size_bytes": 0}) or "nothing of it in the input"
        console.print(
            cell(f"{item.output}: {item.output_format}, {counts}, {size(item.written.get('size_bytes', 0))}")
        )
        for warning in item.warnings:
            console.print(cell(f"  problem in {item.input}: {warning}"))
        for note in item.notes:
            console.print(cell(f"  note on {item.input}: {note}"))


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
