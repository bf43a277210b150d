"""The project as a whole: targets, packaging metadata, what is said in two places says the same."""

from __future__ import annotations

import os
import re
import subprocess
from importlib import metadata
from pathlib import Path

import pytest

import otel_torchprof
from otel_torchprof.package import _instruments

ROOT = Path(__file__).parents[2]


def tracked_files() -> list[Path]:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("target", ["setup", "demo", "test", "lint", "bench", "clean", "help"])
def test_make_has_the_target(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text("utf-8"), re.M)


def test_the_demo_names_commands_that_there_are() -> None:
    said = (ROOT / "Makefile").read_text("utf-8")
    named = re.findall(r"otel-torchprof (.*?) (out/demo\.tprof)( -o out/demo\.html)?", said)
    assert {(command, bool(page)) for command, _input, page in named} == {
        *(("report", False), ("report", True), ("info", False), ("patterns", False))
    }


def test_ci_runs_tests_and_lint() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert {"make test", "make lint"} <= set(script.read_text("utf-8").splitlines())


def test_no_file_knows_the_machine_it_was_written_on() -> None:
    here = f"{ROOT}/".encode()
    assert [path for path in tracked_files() if here in path.read_bytes()] == []


def test_nothing_is_left_to_do() -> None:
    left = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX)\b")
    code = [path for path in tracked_files() if path.suffix in {".py", ".pyi", ".cpp", ".h", ".txt", ".toml"}]
    assert code
    assert [path for path in code if left.search(path.read_text("utf-8"))] == []


def test_the_version_is_said_once() -> None:
    assert metadata.version("otel-torchprof") == otel_torchprof.__version__


def test_what_is_instrumented_is_the_extra_of_that_name() -> None:
    requires = metadata.requires("otel-torchprof") or []
    extra = [line.split(";")[0].strip() for line in requires if re.search(r"extra == .instruments.", line)]
    assert extra == list(_instruments)


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("opentelemetry_instrumentor", "torchprof"),
        ("opentelemetry_environment_variables", "torchprof"),
        ("opentelemetry_traces_exporter", "otlp_file"),
        ("console_scripts", "otel-torchprof"),
    ],
)
def test_every_entry_point_loads(group: str, name: str) -> None:
    (point,) = metadata.entry_points(group=group, name=name)
    assert point.dist is not None
    assert point.dist.name == "otel-torchprof"
    assert point.load() is not None


def test_the_licence_is_whole_and_named() -> None:
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert "Apache License" in text
    assert "END OF TERMS AND CONDITIONS" in text
    assert metadata.metadata("otel-torchprof")["License-Expression"] == "Apache-2.0"


def test_the_package_is_typed() -> None:
    assert (Path(otel_torchprof.__file__).parent / "py.typed").is_file()
