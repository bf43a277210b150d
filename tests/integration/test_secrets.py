"""What is planted in arguments, environment, headers and the metadata of a trace comes out nowhere."""

from __future__ import annotations

import gzip
import json
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.instrumented import instrumented_environment, run_instrumented, script
from tests.support.otlp_metrics_sink import OtlpMetricsSink
from tests.support.otlp_sink import OtlpHttpSink

PROGRAMS = Path(__file__).with_name("programs")
PROGRAM = str(PROGRAMS / "with_secrets.py")
SECRET = "hunter2-correct-horse"
PLANTED = {
    "API_TOKEN": SECRET,
    "DATABASE_URL": f"postgres://me:{SECRET}@db/x",
    "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer {SECRET}",
}


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Every file, and what compressed ones hold."""
    for path in folder.rglob("*"):
        if not path.is_file():
            continue
        content = path.read_bytes()
        yield path, content
        if content[:2] == b"\x1f\x8b":
            yield path, gzip.decompress(content)
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                yield from ((path, archive.read(name)) for name in archive.namelist())


def tells(text: bytes | str) -> bool:
    raw = text.encode() if isinstance(text, str) else text
    return SECRET.encode() in raw


def test_a_program_that_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in PLANTED.items():
        monkeypatch.setenv(name, value)
    with OtlpHttpSink() as spans, OtlpMetricsSink() as metrics:
        finished = run_instrumented(
            [PROGRAM, f"--password={SECRET}"],
            tmp_path,
            {
                "OTEL_EXPORTER_OTLP_HEADERS": PLANTED["OTEL_EXPORTER_OTLP_HEADERS"],
                "SCHEDULE": "skip_first=1,active=2,repeat=1",
                "RECORDING_DIR": "recordings",
                "RECORD_SHAPES": "true",
                "PROFILE_MEMORY": "true",
                "WITH_STACK": "true",
                "WITH_MODULES": "true",
                "OTEL_TRACES_EXPORTER": "otlp,otlp_file",
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{spans.endpoint}/v1/traces",
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{metrics.endpoint}/v1/metrics",
                # Detectors of the SDK that find out more than they should.
                "OTEL_EXPERIMENTAL_RESOURCE_DETECTORS": "otel,process,os,host",
            },
        )
        assert spans.span_names["torch.step"] == 2
        assert all(received.headers["authorization"] == f"Bearer {SECRET}" for received in spans.received)
        assert not any(tells(received.request.SerializeToString()) for received in spans.received)
        assert metrics.named("torch.op.calls")
        assert not any(tells(request.SerializeToString()) for request in metrics.requests)
    (recording,) = (tmp_path / "recordings").iterdir()
    _everything_out_of(recording, tmp_path / "out")
    assert not tells(finished.stdout + finished.stderr)
    assert [path for path, content in contents(tmp_path) if tells(content)] == []


def test_names_of_user_scopes_with_a_redaction_hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUSTOMER", SECRET)
    with OtlpHttpSink() as spans, OtlpMetricsSink() as metrics:
        finished = run_instrumented(
            [str(PROGRAMS / "with_secret_names.py")],
            tmp_path,
            {
                "REDACT": "with_secret_names:redact",
                "SCHEDULE": "skip_first=1,active=2,repeat=1",
                "RECORD_SHAPES": "true",
                "WITH_STACK": "true",
                "PATTERNS": "true",
                "METRICS_SAMPLING": "full",
                "OTEL_TRACES_EXPORTER": "otlp,otlp_file",
                "OTEL_METRICS_EXPORTER": "otlp",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{spans.endpoint}/v1/traces",
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{metrics.endpoint}/v1/metrics",
            },
        )
        assert spans.span_names["fit customer"] == spans.span_names["loss of customer"] == 2
        assert not any(tells(received.request.SerializeToString()) for received in spans.received)
        assert b"fit customer" in metrics.requests[-1].SerializeToString()
        assert not any(tells(request.SerializeToString()) for request in metrics.requests)
    assert not tells(finished.stdout + finished.stderr)
    assert b"fit customer" in (tmp_path / "spans.jsonl").read_bytes()
    assert [path for path, content in contents(tmp_path) if tells(content)] == []


def test_a_trace_with_an_environment_in_it(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 1, "dur": 2}
    trace.write_text(
        json.dumps(
            {
                "schemaVersion": 1,
                "env": {"API_TOKEN": SECRET},
                "argv": ["train.py", f"--password={SECRET}"],
                "API_TOKEN": SECRET,
                "headers": f"authorization: {SECRET}",
                "otherData": {"cmdline": SECRET},
                "traceEvents": [{**event, "args": {"Sequence number": 3}}],
            }
        )
    )
    _everything_out_of(trace, tmp_path / "out")
    assert [path for path, content in contents(tmp_path / "out") if tells(content)] == []


def _everything_out_of(recording: Path, folder: Path) -> None:
    """Writes each output of a recording, and what the commands print, into `folder`."""
    folder.mkdir()
    source = str(recording)
    for number, arguments in enumerate(
        [
            ["convert", source, str(folder / "a.json")],
            ["convert", source, str(folder / "a.json.gz")],
            ["convert", source, str(folder / "tb"), "--to", "tensorboard"],
            ["convert", source, str(folder / "a.otlp"), "--to", "otlp"],
            ["convert", source, str(folder / "a.jsonl"), "--to", "otlp-json"],
            ["convert", source, str(folder / "a.stacks"), "--to", "stacks"],
            ["convert", source, str(folder / "a.tprof"), "--to", "tprof"],
            ["report", source],
            ["report", source, "-o", str(folder / "a.html")],
            ["patterns", source, "--json"],
            ["info", source],
        ]
    ):
        done = subprocess.run(
            [script("otel-torchprof"), *arguments], capture_output=True, check=False, timeout=120
        )
        assert done.returncode == 0, (arguments, done.stderr)
        (folder / f"{number}.txt").write_bytes(done.stdout + done.stderr)


def test_the_doctor() -> None:
    # A secret under a mistyped name of ours too: the doctor names it, and keeps its value.
    environment = instrumented_environment({"TOKEN": SECRET})
    done = subprocess.run(
        [script("otel-torchprof"), "doctor"],
        env={**environment, **PLANTED},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "OTEL_PYTHON_TORCHPROF_TOKEN" in done.stdout
    assert not tells(done.stdout + done.stderr)
