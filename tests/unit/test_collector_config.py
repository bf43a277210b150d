"""Configuration of Collectors, back ends and Grafana: sound in itself, as far as can be told without them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dashboard_source.__main__ import DASHBOARDS, FOLDER, rendered
from dashboard_source.panels import GRID_WIDTH, Dashboard
from otel_torchprof.spans.plan import SCOPE_NAME
from tests.support.dashboards import FOLDER as CONFIG
from tests.support.dashboards import alerts, dashboards, load_yaml, panels

COLLECTORS = ("otel-collector.yaml", "otel-collector-agent.yaml", "otel-collector-gateway.yaml")
# What the contrib distribution has, of the kinds used here, with the keys that each takes. No Collector of it
# can be installed for the tests: this is from its documentation, and catches what is misspelt.
COMPONENTS: dict[str, dict[str, set[str]]] = {
    "receivers": {"otlp": {"protocols"}},
    "processors": {
        "memory_limiter": {
            "check_interval",
            "limit_mib",
            "limit_percentage",
            "spike_limit_mib",
            "spike_limit_percentage",
        },
        "batch": {"timeout", "send_batch_size", "send_batch_max_size"},
        "filter": {"error_mode", "traces"},
        "tail_sampling": {"decision_wait", "num_traces", "decision_cache", "policies"},
    },
    "connectors": {
        "forward": set(),
        "spanmetrics": {
            "histogram",
            "dimensions",
            "exemplars",
            "aggregation_cardinality_limit",
            "metrics_flush_interval",
            "metrics_expiration",
        },
    },
    "exporters": {
        "otlp": {"endpoint", "tls"},
        "loadbalancing": {"routing_key", "protocol", "resolver"},
        "prometheus": {"endpoint", "enable_open_metrics", "metric_expiration"},
        "jaeger_storage_exporter": {"trace_storage"},
    },
    "extensions": {
        "health_check": {"endpoint"},
        "jaeger_storage": {"backends"},
        "jaeger_query": {"storage", "http", "grpc"},
    },
}
# The recorder's requests: 3.5 MiB or 8,192 spans at most.
MAX_REQUEST_MIB = 4
GRAFANA_UNITS = {"none", "s", "percentunit", "ops", "cps", "bytes", "Bps", "short"}


def yaml_files() -> list[str]:
    return sorted(
        str(path.relative_to(CONFIG)) for pattern in ("*.yaml", "*.yml") for path in CONFIG.rglob(pattern)
    )


@pytest.mark.parametrize("name", yaml_files())
def test_every_yaml_file_is_a_mapping(name: str) -> None:
    assert isinstance(load_yaml(name), dict)


def kind_of(component: str) -> str:
    return component.partition("/")[0]


@pytest.mark.parametrize("name", [*COLLECTORS, "jaeger.yaml"])
def test_components_exist_and_take_their_keys(name: str) -> None:
    config = load_yaml(name)
    wrong = [
        f"{section}.{component}: {key}"
        for section, known in COMPONENTS.items()
        for component, settings in config.get(section, {}).items()
        for key in (settings or {})
        if key not in known[kind_of(component)]
    ]
    assert wrong == []


@pytest.mark.parametrize("name", [*COLLECTORS, "jaeger.yaml"])
def test_pipelines_use_what_is_defined_and_all_of_it(name: str) -> None:
    config = load_yaml(name)
    service = config["service"]
    connectors = set(config.get("connectors", {}))
    assert set(service["extensions"]) == set(config["extensions"])
    for section, also in (("receivers", connectors), ("processors", set()), ("exporters", connectors)):
        used = {item for pipeline in service["pipelines"].values() for item in pipeline.get(section, [])}
        defined = set(config.get(section, {}))
        assert used <= defined | also
        assert defined <= used
    for connector in connectors:
        ends = [
            {section for section in ("receivers", "exporters") if connector in pipeline[section]}
            for pipeline in service["pipelines"].values()
        ]
        assert set().union(*ends) == {"receivers", "exporters"}
        assert not any(len(end) == 2 for end in ends), f"{connector} feeds itself"


@pytest.mark.parametrize("name", COLLECTORS)
def test_the_memory_limiter_is_first(name: str) -> None:
    pipelines = load_yaml(name)["service"]["pipelines"].values()
    taken_in = [pipeline for pipeline in pipelines if "otlp" in pipeline["receivers"]]
    assert taken_in
    assert {pipeline["processors"][0] for pipeline in taken_in} == {"memory_limiter"}


def grpc_limits_mib() -> Iterator[tuple[str, int]]:
    for name in (*COLLECTORS, "jaeger.yaml"):
        yield name, load_yaml(name)["receivers"]["otlp"]["protocols"]["grpc"]["max_recv_msg_size_mib"]
    tempo = load_yaml("tempo.yaml")["distributor"]["receivers"]["otlp"]["protocols"]["grpc"]
    yield "tempo.yaml", tempo["max_recv_msg_size_mib"]


def test_whoever_takes_batches_takes_them_whole() -> None:
    limits = dict(grpc_limits_mib())
    assert min(limits.values()) > MAX_REQUEST_MIB
    # 4 KB a span is four times the mean of captured steps.
    for name in COLLECTORS:
        batch = load_yaml(name)["processors"]["batch"]["send_batch_max_size"]
        assert batch * 4096 <= min(limits.values()) * 2**20


def test_span_metrics_are_of_steps_alone_and_bounded() -> None:
    for name in ("otel-collector.yaml", "otel-collector-gateway.yaml"):
        config = load_yaml(name)
        assert config["processors"]["filter/steps"]["traces"]["span"] == ['name != "torch.step"']
        assert config["connectors"]["spanmetrics"]["aggregation_cardinality_limit"] > 0
        feeding = [
            pipeline
            for pipeline in config["service"]["pipelines"].values()
            if "spanmetrics" in pipeline["exporters"]
        ]
        assert [pipeline["processors"] for pipeline in feeding] == [["filter/steps"]]


def test_agents_keep_traces_together_and_the_gateway_judges_them_whole() -> None:
    assert load_yaml("otel-collector-agent.yaml")["exporters"]["loadbalancing"]["routing_key"] == "traceID"
    gateway = load_yaml("otel-collector-gateway.yaml")
    processors = gateway["service"]["pipelines"]["traces"]["processors"]
    assert processors.index("tail_sampling") < processors.index("batch")


def test_tail_sampling_keeps_what_exemplars_name() -> None:
    policies = load_yaml("otel-collector-gateway.yaml")["processors"]["tail_sampling"]["policies"]
    by_name: dict[str, Any] = {policy["name"]: policy for policy in policies}
    assert all(policy["type"] in policy for policy in policies), "each policy has the settings of its type"
    (kept,) = by_name["named-by-exemplars"]["ottl_condition"]["span"]
    assert kept == f'instrumentation_scope.name == "{SCOPE_NAME}"'
    (slow,) = by_name["slow-steps"]["ottl_condition"]["span"]
    assert slow.startswith('name == "torch.step" and end_time_unix_nano - start_time_unix_nano > ')


def test_images_are_pinned_and_ports_are_on_loopback() -> None:
    services = load_yaml("compose.yaml")["services"]
    images = [service["image"] for service in services.values()]
    assert [image for image in images if not re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\d+", image)] == []
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_compose_mounts_what_is_there_and_sets_what_is_read() -> None:
    for name, service in load_yaml("compose.yaml")["services"].items():
        mounted = [volume.split(":")[0] for volume in service["volumes"]]
        files = [CONFIG / path for path in mounted if path.startswith("./")]
        assert [path for path in files if not path.exists()] == []
        text = "".join(
            path.read_text("utf-8")
            for given in files
            for path in (sorted(given.rglob("*.yaml")) if given.is_dir() else [given])
        )
        variables = {
            variable for variable in service.get("environment", {}) if not variable.startswith("GF_")
        }
        assert {variable for variable in variables if variable not in text} == set(), name


def test_exemplars_are_kept_and_lead_to_traces() -> None:
    command = load_yaml("compose.yaml")["services"]["prometheus"]["command"]
    assert "--enable-feature=exemplar-storage" in command
    assert "--enable-feature=exemplar-storage" in (CONFIG / "prometheus.yml").read_text("utf-8")
    sources = load_yaml("grafana/provisioning/datasources/torchprof.yaml")["datasources"]
    by_type = {source["type"]: source for source in sources}
    (destination,) = by_type["prometheus"]["jsonData"]["exemplarTraceIdDestinations"]
    assert destination == {"name": "trace_id", "datasourceUid": by_type["tempo"]["uid"]}
    assert load_yaml("otel-collector.yaml")["exporters"]["prometheus"]["enable_open_metrics"] is True


def test_the_example_of_targets_is_one() -> None:
    example = yaml.safe_load((CONFIG / "targets" / "bert-pretraining.yml.example").read_text("utf-8"))
    assert [group["labels"] for group in example] == [{"job": "bert-pretraining"}]


def test_the_readme_says_what_every_file_is_for() -> None:
    text = (CONFIG / "README.md").read_text("utf-8")
    named = {row.split("`")[1] for row in text.splitlines() if row.startswith("| `")}
    there = {f"{path.name}/" if path.is_dir() else path.name for path in CONFIG.iterdir()} - {"README.md"}
    assert named - {"grafana/dashboards/", "grafana/dashboard_source/", "grafana/provisioning/"} == there - {
        "grafana/"
    }
    assert [name for name in named if not (CONFIG / name).exists()] == []


def test_the_documents_list_every_alert_and_every_dashboard() -> None:
    text = (CONFIG.parent / "docs" / "dashboards.md").read_text("utf-8")
    listed = re.findall(r"^\| `(Torch\w+)` \|", text, re.M)
    assert listed == [alert["alert"] for alert in alerts()]
    pictures = re.findall(r"images/dashboard-(\w+)\.png", text)
    assert pictures == [dashboard.uid.removeprefix("torchprof-") for dashboard in DASHBOARDS]


# --- dashboards ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda dashboard: dashboard.uid)
def test_dashboards_are_what_their_source_makes(dashboard: Dashboard) -> None:
    written = (FOLDER / f"{dashboard.uid}.json").read_text("utf-8")
    assert written == rendered(dashboard), "run `python -m dashboard_source` in collector-config/grafana"


def test_there_are_no_other_dashboards() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == {dashboard.uid for dashboard in DASHBOARDS}


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_every_panel_says_its_question_its_unit_and_its_source(dashboard: dict[str, Any]) -> None:
    for panel in panels(dashboard):
        assert "?" in panel["description"], panel["title"]
        assert panel["datasource"]["uid"] in {"${prometheus}", "${traces}"}
        if panel["datasource"]["uid"] == "${prometheus}":
            assert panel["fieldConfig"]["defaults"]["unit"] in GRAFANA_UNITS
        assert panel["targets"]


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_panels_do_not_overlap(dashboard: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + column, place["y"] + line)
            for column in range(place["w"])
            for line in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(column for column, _ in cells) < GRID_WIDTH
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_variables_stand_for_sources_jobs_and_ranks(dashboard: dict[str, Any]) -> None:
    variables = [variable["name"] for variable in dashboard["templating"]["list"]]
    assert variables == ["prometheus", "traces", "job", "instance"]
    used = set(re.findall(r"\$(\w+)|\$\{(\w+)\}", str(dashboard["panels"])))
    names = {name for pair in used for name in pair if name}
    assert names <= {*variables, "__rate_interval", "__range"}


def test_step_times_lead_to_traces() -> None:
    (training,) = (item for item in dashboards() if item["uid"] == "torchprof-training")
    with_exemplars = [
        panel["title"]
        for panel in panels(training)
        if any(target.get("exemplar") for target in panel["targets"])
    ]
    assert with_exemplars == ["Step time: median, 95 %, 99 %"]
