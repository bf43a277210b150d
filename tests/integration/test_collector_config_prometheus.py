"""Prometheus with the shipped configuration scrapes ranks: rules and dashboards find what they ask for."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import rotel
from opentelemetry.sdk.resources import Resource

from otel_torchprof.semconv_metrics import METRICS, OP_CALLS, STEP_BOUNDS_S
from otel_torchprof.telemetry.prometheus import TorchprofCollector
from otel_torchprof.telemetry.prometheus_endpoint import PrometheusEndpoint
from otel_torchprof.telemetry.prometheus_names import prometheus_sample_names
from tests.support.dashboards import FOLDER, PanelQuery, panel_queries
from tests.support.ports import free_ports, listens
from tests.support.prometheus import PrometheusServer
from tests.support.shipped_prometheus import JOB, shipped_prometheus
from tests.support.simulated_training import STEP_S, STRAGGLER, WORLD_SIZE, SimulatedRank

# How long the training has run when it is first scraped.
_AGE_S = 4 * 3600.0
_SCRAPES = 5


@dataclass
class Training:
    """Ranks that answer scrapes, and the Prometheus that scrapes them."""

    server: PrometheusServer
    endpoints: list[PrometheusEndpoint] = field(default_factory=list)
    began_unix_s: float = field(default_factory=lambda: time.time() - _AGE_S)

    def elapsed_s(self) -> float:
        return time.time() - self.began_unix_s

    def start_rank(self, rank: int, port: int) -> None:
        simulated = SimulatedRank(rank)
        collector = TorchprofCollector(
            lambda: simulated.families(self.elapsed_s(), time.time()),
            lambda: Resource({"service.name": JOB, "torch.rank": rank, "torch.world_size": WORLD_SIZE}),
        )
        endpoint = PrometheusEndpoint(collector, port=port)
        assert endpoint.start()
        self.endpoints.append(endpoint)

    def instance(self, rank: int) -> str:
        return f"127.0.0.1:{self.endpoints[rank].port}"

    def value(self, query: str) -> float:
        (series,) = self.server.query(query)
        return float(series["value"][1])


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Training]:
    ports = free_ports(WORLD_SIZE)
    training = Training(shipped_prometheus(tmp_path_factory.mktemp("prometheus"), ports))
    try:
        for rank, port in enumerate(ports):
            training.start_rank(rank, port)
        with training.server as server:
            enough = f"count(count_over_time(torch_step_number[1m]) >= {_SCRAPES}) == {WORLD_SIZE}"
            server.wait_for(lambda: server.query(enough) != [], "all ranks were scraped several times")
            ruled = "count(count_over_time(instance:torchprof_events_dropped:ratio10m[1m]) >= 2)"
            server.wait_for(lambda: server.query(ruled) != [], "rules were evaluated")
            yield training
    finally:
        for endpoint in training.endpoints:
            endpoint.stop()


def test_every_series_of_every_metric_arrives_and_no_other(training: Training) -> None:
    found = {
        series["metric"]["__name__"]
        for series in training.server.query(f'count by (__name__) ({{job="{JOB}", __name__=~"torch.*"}})')
    }
    names = {name for metric in METRICS for name in prometheus_sample_names(metric)}
    recorded = {name for name in found if ":" in name}
    assert found - recorded == names
    ranks = {series["metric"]["torch_rank"] for series in training.server.query("target_info")}
    assert ranks == {str(rank) for rank in range(WORLD_SIZE)}


def test_promtool_finds_nothing_to_say_of_a_scrape(training: Training) -> None:
    with urllib.request.urlopen(f"http://{training.instance(0)}/metrics", timeout=10) as answer:
        text = answer.read()
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, timeout=30, check=False
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


def test_counters_have_the_value_that_the_rank_had_at_the_scrape(training: Training) -> None:
    labels = f'instance="{training.instance(1)}", torch_op_name="aten::mm", torch_phase="forward"'
    query = f"torch_op_calls_total{{{labels}}}"
    scraped_s, value = training.value(f"timestamp({query})"), training.value(query)
    rank = SimulatedRank(1)

    def calls(unix_s: float) -> float:
        families = rank.families(unix_s - training.began_unix_s, unix_s)
        (family,) = (family for family in families if family.metric.name == OP_CALLS)
        return family.points[0].value  # type: ignore[union-attr]

    # The time of a scrape is of its beginning; answering takes part of a second.
    assert calls(scraped_s - 1.0) < value < calls(scraped_s + 5.0)


def test_quantiles_fall_into_the_bucket_of_the_median(training: Training) -> None:
    median_s = training.value(
        "histogram_quantile(0.5, sum by (le) (rate(torch_step_duration_seconds_bucket[1m])))"
    )
    lower, upper = max(b for b in STEP_BOUNDS_S if b < STEP_S), min(b for b in STEP_BOUNDS_S if b > STEP_S)
    assert lower < median_s < upper


def test_exemplars_come_back_with_the_trace_of_the_captured_step(training: Training) -> None:
    now = time.time()
    found = training.server.exemplars("torch_step_duration_seconds_bucket", now - 3600.0, now)
    by_instance = {
        series["seriesLabels"]["instance"]: {item["labels"]["trace_id"] for item in series["exemplars"]}
        for series in found
    }
    for rank in range(WORLD_SIZE):
        # A new step may have been captured since the scrape.
        captured = {SimulatedRank(rank).trace_id(training.elapsed_s() - ago).hex() for ago in (0.0, 60.0)}
        assert by_instance[training.instance(rank)] & captured


def test_every_rule_is_evaluated_without_an_error(training: Training) -> None:
    rules = training.server.rules()
    training.server.wait_for(
        lambda: all(rule["health"] == "ok" for rule in training.server.rules()), "all rules are healthy"
    )
    assert {rule["name"]: rule["lastError"] for rule in rules if rule.get("lastError")} == {}
    recording = [rule["name"] for rule in rules if rule["type"] == "recording"]
    assert [name for name in recording if not training.server.query(name)] == []


def asks_for_yesterday(query: PanelQuery) -> bool:
    return "offset 1d" in query.text


@pytest.mark.parametrize(
    "query",
    [query for query in panel_queries() if query.language == "promql"],
    ids=lambda query: f"{query.dashboard}: {query.panel}",
)
def test_every_panel_has_data(training: Training, query: PanelQuery) -> None:
    assert bool(training.server.query(query.filled())) is not asks_for_yesterday(query)


def test_the_straggler_is_the_one_that_waits_least(training: Training) -> None:
    (first,) = training.server.query("bottomk(1, instance:torch_collective_wait:ratio15m)")
    assert first["metric"]["instance"] == training.instance(STRAGGLER)


def test_a_rank_that_dies_is_missed(training: Training) -> None:
    server, dying = training.server, training.endpoints[WORLD_SIZE - 1]
    instance = training.instance(WORLD_SIZE - 1)
    dying.stop()
    try:
        missing = f'ALERTS{{alertname="TorchRanksMissing", job="{JOB}"}}'
        server.wait_for(lambda: server.query(missing) != [], "the alert is pending")
        assert training.value("job:torch_ranks:count") == WORLD_SIZE - 1
        (down,) = server.query(f'up{{job="{JOB}"}} == 0')
        assert down["metric"]["instance"] == instance
    finally:
        assert dying.start()
        back = f"job:torch_ranks:count == {WORLD_SIZE}"
        server.wait_for(lambda: server.query(back) != [], "the rank is back")


def test_rotel_takes_its_settings(tmp_path: Path) -> None:
    lines = (FOLDER / "rotel.env").read_text("utf-8").splitlines()
    settings = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    agent = Path(rotel.__file__).with_name("rotel-agent")
    described = subprocess.run(
        [agent, "start", "--help"], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    assert [name for name in settings if f"[env: {name}=" not in described] == []
    grpc_port, http_port = free_ports(2)
    settings |= {
        "ROTEL_OTLP_GRPC_ENDPOINT": f"127.0.0.1:{grpc_port}",
        "ROTEL_OTLP_HTTP_ENDPOINT": f"127.0.0.1:{http_port}",
    }
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ROTEL_", "OTEL_"))}
    with (tmp_path / "rotel.log").open("wb") as log:
        process = subprocess.Popen(
            [agent, "start"], env=environ | settings, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + 30.0
        while not (listens(grpc_port) and listens(http_port)):
            assert process.poll() is None, (tmp_path / "rotel.log").read_text()
            assert time.monotonic() < deadline, (tmp_path / "rotel.log").read_text()
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.05)
    finally:
        process.terminate()
        process.wait(10)
