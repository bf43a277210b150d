"""Other tools at the same program: it ends as it would without them, and they and we find all we look for."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.instrumented import instrumented_environment, script
from tests.support.otlp_sink import OtlpHttpSink
from tests.support.required_tools import require_package, skip_or_fail
from tests.support.trainings import PROGRAM, Trainings

STEPS = 4  # that are recorded


def settings_to(sink: OtlpHttpSink) -> dict[str, str]:
    """With everything that watches Python itself, as most other tools do."""
    return {
        "SCHEDULE": "skip_first=2,active=2,repeat=2",
        "WITH_STACK": "true",
        "WITH_MODULES": "true",
        "MAX_SPANS_PER_TRACE": "0",
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
    }


def check_what_we_found(sink: OtlpHttpSink) -> None:
    names = sink.span_names
    assert names["torch.step"] == STEPS
    assert names["aten::addmm"] == 2 * STEPS
    assert names["Linear"] == 2 * STEPS


def beside(tool: str, trainings: Trainings, folder: Path) -> str:
    """What a training says that the tool watches too."""
    with OtlpHttpSink() as sink:
        said = trainings.run(folder, settings_to(sink), beside=tool, beside_output=str(folder))
    check_what_we_found(sink)
    return said


def test_coverage(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    coverage = require_package("coverage")
    assert beside("coverage", trainings, tmp_path) == ""
    assert trainings.loss == loss
    data = coverage.CoverageData(str(tmp_path / "coverage"))
    data.read()
    first_line = 1 + PROGRAM.read_text().splitlines().index("    torch.manual_seed(0)")
    assert first_line in (data.lines(str(PROGRAM)) or ())


def test_viztracer(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    require_package("viztracer")
    assert beside("viztracer", trainings, tmp_path) == ""
    assert trainings.loss == loss
    names = [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert sum(name.startswith("fit ") for name in names) == 1
    assert sum(name.startswith("Linear.forward ") for name in names) == 2 * 8


def test_torch_profiler(trainings: Trainings, loss: str, tmp_path: Path) -> None:
    said = beside("torch.profiler", trainings, tmp_path)
    assert "otel" not in said  # the profiler itself may say something
    assert trainings.loss == loss
    names = [event["name"] for event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]]
    assert names.count("aten::addmm") == 2 * 8


def run_once(command: list[str], sink: OtlpHttpSink, folder: Path, **environ: str) -> tuple[str, str]:
    """What a training under a command puts out, its loss too, and what is said."""
    done = subprocess.run(
        [*command, sys.executable, str(PROGRAM), "once"],
        cwd=folder,
        env={**instrumented_environment(settings_to(sink)), **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_py_spy(loss: str, tmp_path: Path) -> None:
    py_spy = Path(script("py-spy"))
    if not py_spy.exists():
        skip_or_fail("py-spy is not installed: make setup installs it")
    stacks = tmp_path / "stacks.txt"
    record = [str(py_spy), "record", "--format", "raw", "--output", str(stacks), "--"]
    with OtlpHttpSink() as sink:
        output, said = run_once([script("opentelemetry-instrument"), *record], sink, tmp_path)
    assert loss in output.splitlines()
    assert "otel" not in said
    check_what_we_found(sink)
    assert "trainings.py" in stacks.read_text()


def installed_beside(name: str) -> Path:
    """The folder of a tool that no other test has on its path."""
    folder = Path(sys.prefix) / "beside" / name
    if not folder.is_dir():
        skip_or_fail(f"{name} is not installed: make test installs it")
    return folder


def test_all_instrumentations_of_opentelemetry(loss: str, tmp_path: Path) -> None:
    contrib = installed_beside("contrib")
    assert len(list(contrib.glob("opentelemetry_instrumentation_*.dist-info"))) > 10
    with OtlpHttpSink() as sink:
        output, said = run_once([script("opentelemetry-instrument")], sink, tmp_path, PYTHONPATH=str(contrib))
        names = sink.span_names
    assert loss in output.splitlines()
    assert said == ""
    check_what_we_found(sink)
    assert not [name for name in names if name.startswith("POST")]  # what sends is not traced


def test_ddtrace(loss: str, tmp_path: Path) -> None:
    folder = installed_beside("ddtrace")
    command = [script("opentelemetry-instrument"), sys.executable, str(folder / "bin" / "ddtrace-run")]
    environ = {
        "PYTHONPATH": str(folder),
        "DD_TRACE_AGENT_URL": "http://127.0.0.1:9",  # there is none
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
        "DD_REMOTE_CONFIGURATION_ENABLED": "false",
        "DD_TRACE_STARTUP_LOGS": "false",
    }
    with OtlpHttpSink() as sink:
        output, said = run_once(command, sink, tmp_path, **environ)
    assert loss in output.splitlines()
    assert "torchprof" not in said
    check_what_we_found(sink)
