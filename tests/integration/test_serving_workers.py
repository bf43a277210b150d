"""gunicorn with two workers: what arrives from each, and that all of it does when the server is ended."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.instrumented import instrumented_environment, script
from tests.support.otlp_metrics_sink import OtlpMetricsSink
from tests.support.otlp_sink import OtlpHttpSink
from tests.support.ports import free_ports, listens
from tests.support.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
PROGRAM = "tests.integration.programs.served_by_workers"
WORKERS = 2
RUN = "shared-by-all"
LOADER = f"{RUN}/0/0"  # the server, which counts what it loads itself
HOW = {
    "sync, loaded before the fork": ["--preload", f"{PROGRAM}:wsgi"],
    "uvicorn, loaded after the fork": ["--worker-class", "uvicorn.workers.UvicornWorker", f"{PROGRAM}:asgi"],
}


class Gunicorn(ServerProcess):
    """A server under `opentelemetry-instrument`."""

    def __init__(self, log: Path, arguments: Sequence[str], settings: Mapping[str, str]) -> None:
        super().__init__(log)
        (self._port,) = free_ports(1)
        self._arguments = arguments
        self._settings = settings

    def _command(self) -> list[str]:
        command = [script("opentelemetry-instrument"), script("gunicorn"), f"--workers={WORKERS}"]
        return [*command, f"--bind=127.0.0.1:{self._port}", f"--chdir={ROOT}", *self._arguments]

    def _environ(self) -> Mapping[str, str]:
        return instrumented_environment(self._settings)

    def _is_ready(self) -> bool:
        return listens(self._port)

    def ask(self, times: int) -> tuple[int, str, int]:
        """The process that answered, its trace, and how often the model was to run its op."""
        with urlopen(f"http://127.0.0.1:{self._port}/?times={times}", timeout=60) as response:
            answer = json.load(response)
        return answer["process"], answer["trace_id"], times

    def end(self) -> int:
        """Its exit status after SIGTERM."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout=60)


def answers_of_all(server: Gunicorn) -> Iterator[tuple[int, str, int]]:
    """Answers until each worker has given two."""
    by_process: Counter[int] = Counter()
    times = 0
    with ThreadPoolExecutor(WORKERS) as clients:
        while len(by_process) < WORKERS or min(by_process.values()) < 2:
            for answer in clients.map(server.ask, range(times + 1, times + 1 + WORKERS)):
                by_process[answer[0]] += 1
                yield answer
            times += WORKERS


@pytest.mark.parametrize("arguments", HOW.values(), ids=HOW)
def test_each_worker_sends_its_own(arguments: list[str], tmp_path: Path) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "log"
    with OtlpHttpSink() as spans, OtlpMetricsSink() as metrics:
        settings = {
            "STEP": "module",
            "SCHEDULE": "active=1000",
            "RUN_ID": RUN,
            "PROMETHEUS_PORT": str(port),
            "OTEL_TRACES_EXPORTER": "otlp",
            "OTEL_METRICS_EXPORTER": "otlp",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{spans.endpoint}/v1/traces",
            "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": f"{metrics.endpoint}/v1/metrics",
        }
        with Gunicorn(log, arguments, settings) as server:
            answers = list(answers_of_all(server))
            metrics.wait_for(lambda: len(instances_of(metrics) - {LOADER}) == WORKERS)
            server.wait_for(lambda: listens(port), "one of them is scraped")
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as response:
                scraped = response.read().decode()
            status = server.end()
        assert (status, "Traceback" in log.read_text()) == (0, False), log.read_text()

        instance_of, ops_of = spans_by_trace(spans)
        instances: dict[int, set[str]] = defaultdict(set)
        for process, trace_id, times in answers:
            assert ops_of[trace_id]["aten::sin"] == times
            instances[process] |= instance_of[trace_id]
        assert [len(of_process) for of_process in instances.values()] == [1] * WORKERS
        of_workers = set().union(*instances.values())
        assert len(of_workers) == WORKERS
        assert all(re.fullmatch(rf"{RUN}\.[0-9a-f]{{16}}/0/0", instance) for instance in of_workers)
        ids = Counter((span.trace_id, span.span_id) for span in spans.spans)
        assert max(ids.values()) == 1
        assert instances_of(metrics) - {LOADER} == of_workers
        assert "torchprof_state" in scraped


def instances_of(sink: OtlpMetricsSink) -> set[str]:
    return {resource["service.instance.id"] for resource in sink.resources()}


def spans_by_trace(sink: OtlpHttpSink) -> tuple[dict[str, set[str]], dict[str, Counter[str]]]:
    """Of our spans: the instances that sent them, and how many there are of each name."""
    instances: dict[str, set[str]] = defaultdict(set)
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for received in sink.received:
        for resource_spans in received.request.resource_spans:
            attributes = {item.key: item.value.string_value for item in resource_spans.resource.attributes}
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans if scope_spans.scope.name == "otel_torchprof" else ():
                    instances[span.trace_id.hex()].add(attributes["service.instance.id"])
                    names[span.trace_id.hex()][span.name] += 1
    return instances, names
