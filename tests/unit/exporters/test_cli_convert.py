"""`otel-torchprof convert`: what goes in, what comes out, and what it says when it cannot."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from otel_torchprof.cli.main import main
from otel_torchprof.importers import load
from otel_torchprof.recording import RecordingBuilder


@pytest.fixture
def recording_path(tmp_path: Path) -> Path:
    builder = RecordingBuilder()
    builder.add_track("main", process_id=4, thread_id=5)
    builder.add_event("aten::add", 1_000, 9_000)
    builder.finish().save(tmp_path / "run.tprof")
    return tmp_path / "run.tprof"


@pytest.mark.parametrize("name", ["out.json", "out.json.gz", "out.tprof", "out.jsonl", "out.otlp"])
def test_the_event_arrives_in_every_format_that_is_read(recording_path: Path, name: str) -> None:
    target = recording_path.parent / name
    assert main(["convert", str(recording_path), str(target)]) == 0
    recording, _report = load(target)
    rows = [row for row in range(len(recording)) if recording.event_name(row) == "aten::add"]
    assert [(int(recording.events.start_ns[row]), int(recording.events.end_ns[row])) for row in rows] == [
        (1_000, 9_000)
    ]


def test_the_format_may_be_said(recording_path: Path, tmp_path: Path) -> None:
    assert main(["convert", str(recording_path), str(tmp_path / "out"), "--to", "stacks"]) == 0
    assert (tmp_path / "out").read_text() == "aten::add 8\n"


def test_a_directory_is_a_tensorboard_run(recording_path: Path, tmp_path: Path) -> None:
    assert main(["convert", str(recording_path), f"{tmp_path / 'runs' / 'one'}{os.sep}"]) == 0
    (path,) = (tmp_path / "runs" / "one").iterdir()
    assert path.name.endswith(".0.pt.trace.json.gz")


def test_many_inputs_make_a_directory_of_outputs(recording_path: Path, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("a.tprof", "b.tprof", "sub/a.tprof"):
        (tmp_path / name).write_bytes(recording_path.read_bytes())
    pattern, folder, output = tmp_path / "[ab].tprof", tmp_path / "sub", tmp_path / "out"
    assert main(["convert", str(pattern), str(folder), str(output), "--to", "chrome"]) == 0
    assert sorted(path.name for path in output.iterdir()) == ["a-2.json.gz", "a.json.gz", "b.json.gz"]


def test_json_says_what_was_done(recording_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = recording_path.parent / "out.json"
    assert main(["convert", str(recording_path), str(target), "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == ""
    (done,) = json.loads(output.out)["converted"]
    assert (done["input_format"], done["output_format"], done["events"]) == ("tprof", "chrome", 1)
    assert done["written"]["slices"] == 1
    assert done["written"]["size_bytes"] == target.stat().st_size


def test_of_several_inputs_the_readable_ones_are_converted(
    recording_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.tprof").write_bytes(b"")
    inputs = [str(tmp_path / "bad.tprof"), str(recording_path)]
    assert main(["convert", *inputs, str(tmp_path / "out"), "--to", "chrome", "--json"]) == 2
    output = capsys.readouterr()
    assert [item["input"] for item in json.loads(output.out)["converted"]] == [str(recording_path)]
    assert output.err == (
        f"otel-torchprof: 1 of 2 inputs cannot be converted: {tmp_path / 'bad.tprof'} is empty\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{run}", "{folder}/out.xyz"], "the name 'out.xyz' does not tell the format"),
        (["{run}", "{folder}/out", "--to", "svg"], "invalid choice: 'svg'"),
        (
            ["{folder}/none.tprof", "{folder}/out.json"],
            "none.tprof cannot be read: No such file",
        ),
        (["{folder}/*.none", "{folder}/out.json"], "*.none names no file"),
        (["{run}", "{folder}/missing/out.json"], "missing/out.json: No such file or directory"),
        (["{run}", "{run}"], "is both input and output"),
        (["{run}", "{run}", "{folder}/pickle", "{folder}/out.json"], "names no file"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    arguments: list[str], said: str, recording_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    known = {"run": str(recording_path), "folder": str(recording_path.parent)}
    (recording_path.parent / "pickle").mkdir()
    try:
        code = main(["convert", *(argument.format_map(known) for argument in arguments)])
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    error = capsys.readouterr().err
    assert (code, error.count("\n")) == (2, 1)
    assert said in error
    assert list(recording_path.parent.glob("*.tmp")) == []
