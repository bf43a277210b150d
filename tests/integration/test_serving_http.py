"""The example of a server, under uvicorn and OpenTelemetry's instrumentation of FastAPI."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.instrumented import attributes_of
from tests.support.ports import free_ports, listens

EXAMPLE = Path(__file__).parents[2] / "examples" / "serving"
REQUESTS = 20


class Served:
    """The server's answers, and once it has ended what it sent."""

    def __init__(self, url: str, process: subprocess.Popen[str], output: Path) -> None:
        self.url = url
        self._process = process
        self._output = output

    def ask(self, paths: list[str]) -> list[dict[str, Any]]:
        """The answers to requests that are made at once."""

        async def ask_all() -> list[dict[str, Any]]:
            async with httpx.AsyncClient(base_url=self.url, timeout=60) as client:
                answers = await asyncio.gather(*(client.get(path) for path in paths))
            return [answer.raise_for_status().json() for answer in answers]

        return asyncio.run(ask_all())

    def spans(self, ended_by: signal.Signals = signal.SIGINT) -> list[dict[str, Any]]:
        self._process.send_signal(ended_by)
        _out, errors = self._process.communicate(timeout=60)
        assert "Traceback" not in errors, errors
        return [
            span
            for line in self._output.read_text("utf-8").splitlines()
            for resource_spans in json.loads(line)["resourceSpans"]
            for scope_spans in resource_spans["scopeSpans"]
            for span in scope_spans["spans"]
        ]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    (port,) = free_ports(1)
    output = tmp_path / "spans.jsonl"
    environ = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environ |= {
        "OTEL_TRACES_EXPORTER": "otlp_file",
        "OTEL_METRICS_EXPORTER": "none",
        "OTEL_LOGS_EXPORTER": "none",
        "OTEL_PYTHON_TORCHPROF_OTLP_FILE": str(output),
        "OTEL_PYTHON_TORCHPROF_STEP": "module",
        "OTEL_PYTHON_TORCHPROF_SCHEDULE": "active=1000",
    }
    scripts = Path(sys.executable).parent
    command = [str(scripts / "opentelemetry-instrument"), str(scripts / "uvicorn"), "server:app"]
    process = subprocess.Popen(
        [*command, "--port", str(port), "--log-level", "warning"],
        cwd=EXAMPLE,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_for(process, port)
        yield Served(f"http://127.0.0.1:{port}", process, output)
    finally:
        process.kill()
        process.communicate()


def _wait_for(process: subprocess.Popen[str], port: int) -> None:
    while not listens(port):
        if process.poll() is not None:
            pytest.fail(f"the server ended: {process.communicate()[1]}")


def ops_by_trace(spans: list[dict[str, Any]]) -> dict[str, Counter[str]]:
    by_trace: dict[str, Counter[str]] = {}
    for span in spans:
        if span["name"].startswith("aten::"):
            by_trace.setdefault(span["traceId"], Counter())[span["name"]] += 1
    return by_trace


@pytest.mark.parametrize("handler", ["sync", "async", "to_thread"])
def test_each_request_holds_the_ops_of_its_own_call(handler: str, served: Served) -> None:
    depths = [depth + 1 for depth in range(REQUESTS)]
    answers = served.ask([f"/{handler}?depth={depth}" for depth in depths])
    spans = served.spans()
    by_trace = ops_by_trace(spans)
    assert by_trace.keys() == {answer["trace_id"] for answer in answers}
    for depth, answer in zip(depths, answers, strict=True):
        found = by_trace[answer["trace_id"]]
        # `depth` layers and one sum: nothing of another request, nothing missing.
        assert (found["aten::relu"], found["aten::addmm"], found["aten::sum"]) == (depth, depth, 1)
    models = [span for span in spans if span["name"] == "Classifier"]
    by_id = {span["spanId"]: span for span in spans}
    assert [by_id[span["parentSpanId"]]["traceId"] for span in models] == [span["traceId"] for span in models]
    assert len(models) == REQUESTS


def test_a_batch_is_linked_to_its_requests_and_they_share_it(served: Served) -> None:
    answers = served.ask(["/batched"] * 8)
    spans = served.spans()
    batches = [span for span in spans if span["name"] == "torch.batch"]
    linked = [link["traceId"] for one in batches for link in one["links"]]
    assert sorted(linked) == sorted(answer["trace_id"] for answer in answers)
    assert ops_by_trace(spans).keys() == {one["traceId"] for one in batches}
    for one in batches:
        events = [
            attributes_of(event)
            for span in spans
            for event in span.get("events", [])
            if event["name"] == "torch.batch"
            and attributes_of(event)["torch.batch.trace_id"] == one["traceId"]
        ]
        assert len(events) == len(one["links"])
        whole = {event["torch.batch.cpu_time_ns"] for event in events}
        assert {sum(event["torch.batch.share.cpu_time_ns"] for event in events)} == whole


def test_a_text_is_one_trace(served: Served) -> None:
    (answer,) = served.ask(["/generate?tokens=12"])
    spans = served.spans(ended_by=signal.SIGTERM)
    calls = [span for span in spans if span["name"] == "NextToken"]
    assert len(calls) == 12
    assert {span["traceId"] for span in calls} == {answer["trace_id"]}
    assert ops_by_trace(spans)[answer["trace_id"]]["aten::embedding"] == 12
