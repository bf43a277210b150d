"""Running programs under `opentelemetry-instrument`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TIMEOUT_S = 280


@dataclass(frozen=True)
class Finished:
    """What a program left."""

    stdout: str
    stderr: str
    spans: list[dict[str, Any]]  # OTLP JSON, as the exporter otlp_file wrote it

    def named(self, name: str) -> list[dict[str, Any]]:
        """The spans of that name."""
        return [span for span in self.spans if span["name"] == name]


def run_instrumented(
    program: Sequence[str],
    folder: Path,
    settings: Mapping[str, str] | None = None,
    *,
    timeout_s: float = _TIMEOUT_S,
) -> Finished:
    """Run `python PROGRAM...` in `folder` under `opentelemetry-instrument`; it must end with 0.

    Spans go to a file unless `settings`, environment variables, name another exporter. Short names stand for
    `OTEL_PYTHON_TORCHPROF_*`.
    """
    return _run([script("opentelemetry-instrument"), sys.executable, *program], folder, settings, timeout_s)


def run_plain(program: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None) -> Finished:
    """Run `python PROGRAM...` without any instrumentation, else like `run_instrumented`."""
    return _run([sys.executable, *program], folder, settings)


def run_command(command: Sequence[str], folder: Path, settings: Mapping[str, str] | None = None) -> Finished:
    """Run a command installed beside Python, else like `run_instrumented`."""
    return _run([script("opentelemetry-instrument"), script(command[0]), *command[1:]], folder, settings)


def attributes_of(span: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a span in OTLP JSON; 64-bit integers become int."""
    values = {}
    for attribute in span.get("attributes", []):
        ((kind, value),) = attribute["value"].items()
        values[attribute["key"]] = int(value) if kind == "intValue" else value
    return values


def instrumented_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with these OTEL_ variables only, as `run_instrumented` takes them."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environ |= {
        "OTEL_TRACES_EXPORTER": "otlp_file",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", "")]),
    }
    for name, value in settings.items():
        environ[name if name.startswith("OTEL_") else f"OTEL_PYTHON_TORCHPROF_{name}"] = value
    return environ


def script(name: str) -> str:
    """The path of a command installed beside Python."""
    return str(Path(sys.executable).with_name(name))


def _run(
    command: Sequence[str],
    folder: Path,
    settings: Mapping[str, str] | None,
    timeout_s: float = _TIMEOUT_S,
) -> Finished:
    output = folder / "spans.jsonl"
    environ = instrumented_environment({"OTLP_FILE": str(output), **(settings or {})})
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"exit {done.returncode}:\n{done.stdout}\n{done.stderr}"
    lines = output.read_text("utf-8").splitlines() if output.exists() else []
    spans = [
        span
        for line in lines
        for resource_spans in json.loads(line)["resourceSpans"]
        for scope_spans in resource_spans["scopeSpans"]
        for span in scope_spans["spans"]
    ]
    return Finished(done.stdout, done.stderr, spans)
