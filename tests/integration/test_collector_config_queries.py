"""Every query of dashboards and alerts: it parses, and asks only for what our metrics and spans have."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest
import yaml

from otel_torchprof.semconv import SPAN_ATTRIBUTES
from otel_torchprof.semconv_metrics import METRICS
from otel_torchprof.telemetry.prometheus_names import prometheus_label, prometheus_sample_names
from tests.support.dashboards import FOLDER, PanelQuery, alerts, dashboards, panel_queries, rules
from tests.support.query_parsers import ParsedQuery, parse
from tests.support.required_tools import skip_or_fail

_TIMEOUT_S = 60.0
# What Prometheus itself adds to what it scrapes, and makes of alerts.
TARGET_LABELS = {"job", "instance"}
PROMETHEUS_OWN = {
    "up": set[str](),
    "scrape_samples_scraped": set[str](),
    "scrape_duration_seconds": set[str](),
    "ALERTS": {"alertname", "alertstate"},
}


def promtool(*arguments: str) -> str:
    """The output of promtool, which succeeds."""
    if shutil.which("promtool") is None:
        skip_or_fail("promtool is not installed: it comes with Prometheus (apt-get install prometheus)")
    result = subprocess.run(
        ["promtool", *arguments], cwd=FOLDER, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@cache
def known_labels() -> dict[str, set[str]]:
    """The labels of every series there is: of our metrics, of recording rules, and of Prometheus's own."""
    known = {name: labels | TARGET_LABELS for name, labels in PROMETHEUS_OWN.items()}
    for metric in METRICS:
        labels = {prometheus_label(attribute) for attribute in metric.attributes}
        for name in prometheus_sample_names(metric):
            known[name] = labels | TARGET_LABELS | ({"le"} if name.endswith("_bucket") else set())
    recording = [rule for rule in rules() if "record" in rule]
    for rule, parsed in zip(recording, parse("promql", [rule["expr"] for rule in recording]), strict=True):
        known[rule["record"]] = set(parsed.grouping)
    return known


def unknown_names(parsed: ParsedQuery, known: dict[str, set[str]]) -> list[str]:
    """The metrics and labels that no series has."""
    unknown = [selector.name for selector in parsed.selectors if selector.name not in known]
    there = [known.get(selector.name, set()) for selector in parsed.selectors]
    for selector, labels in zip(parsed.selectors, there, strict=True):
        unknown += [f"{selector.name}: {label}" for label in selector.labels if label not in labels]
    return unknown + [label for label in parsed.grouping if label not in set().union(*there)]


def of_language(language: str) -> list[PanelQuery]:
    queries = [query for query in panel_queries() if query.language == language]
    assert queries
    return queries


def test_promtool_accepts_the_configuration() -> None:
    said = promtool("check", "config", "prometheus.yml")
    assert "prometheus.yml is valid" in said
    assert "2 rule files found" in said


def test_promtool_accepts_the_rules() -> None:
    said = promtool("check", "rules", "recording-rules.yml", "alerts.yml")
    assert f"{len(alerts())} rules found" in said


def test_each_alert_fires_when_it_should_and_not_when_it_should_not() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts_test.yml")


def test_each_alert_has_a_case_and_a_counter_example() -> None:
    cases: dict[str, int] = {}
    for test in yaml.safe_load((FOLDER / "alerts_test.yml").read_text("utf-8"))["tests"]:
        quiet = any("healthy" in series["series"] for series in test["input_series"])
        for case in test["alert_rule_test"]:
            cases[case["alertname"]] = cases.get(case["alertname"], 0) + (quiet and bool(case["exp_alerts"]))
    assert cases == {alert["alert"]: 1 for alert in alerts()}


def test_an_alert_that_does_not_fire_would_be_missed(tmp_path: Path) -> None:
    for path in FOLDER.glob("*.yml"):
        shutil.copy(path, tmp_path)
    rules_without = re.sub(r"- alert: (\w+)", r"- alert: No\1", (tmp_path / "alerts.yml").read_text("utf-8"))
    (tmp_path / "alerts.yml").write_text(rules_without, "utf-8")
    with pytest.raises(AssertionError) as failed:
        promtool("test", "rules", str(tmp_path / "alerts_test.yml"))
    missed = set(re.findall(r"alertname: (\w+)", str(failed.value)))
    assert missed == {alert["alert"] for alert in alerts()}


def test_every_alert_says_how_bad_it_is_and_what_to_do() -> None:
    for alert in alerts():
        assert alert["labels"]["severity"] in {"critical", "warning", "info"}
        assert set(alert["annotations"]) == {"summary", "description"}


def test_queries_of_dashboards_use_names_that_exist() -> None:
    known = known_labels()
    parsed = parse("promql", [query.filled() for query in of_language("promql")])
    assert {query.text: query.errors for query in parsed if query.errors} == {}
    assert {query.text: names for query in parsed if (names := unknown_names(query, known))} == {}


def test_rules_use_names_that_exist() -> None:
    known = known_labels()
    parsed = parse("promql", [rule["expr"] for rule in rules()])
    assert {query.text: query.errors for query in parsed if query.errors} == {}
    assert {query.text: names for query in parsed if (names := unknown_names(query, known))} == {}


def test_variables_of_dashboards_ask_for_labels_that_exist() -> None:
    known = known_labels()
    calls = [
        re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
        for dashboard in dashboards()
        for variable in dashboard["templating"]["list"]
        if variable["type"] == "query"
    ]
    asked = {(call[1], call[2]) for call in calls if call is not None}
    assert len(calls) == 2 * len(dashboards())
    assert {label for _, label in asked} == {"job", "instance"}
    for (_, label), parsed in zip(asked, parse("promql", [query for query, _ in asked]), strict=True):
        assert parsed.errors == ()
        assert unknown_names(parsed, known) == []
        assert label in known[parsed.selectors[0].name]


def test_legends_name_labels_that_their_queries_keep() -> None:
    queries = of_language("promql")
    for query, parsed in zip(queries, parse("promql", [item.filled() for item in queries]), strict=True):
        kept = set(parsed.grouping) or known_labels()[parsed.selectors[0].name]
        assert set(re.findall(r"\{\{(\w+)\}\}", query.legend)) <= kept | {"alertname"}, query


def test_queries_of_traces_use_attributes_that_spans_have() -> None:
    parsed = parse("traceql", [query.filled() for query in of_language("traceql")])
    assert {query.text: query.errors for query in parsed if query.errors} == {}
    ours = {f"span.{attribute.name}" for attribute in SPAN_ATTRIBUTES}
    asked = {attribute for query in parsed for attribute in query.attributes}
    assert asked - ours == {"resource.service.name"}


@pytest.mark.parametrize(
    ("language", "text"),
    [("promql", "sum(rate(foo[5m)"), ("promql", "foo by"), ("traceql", "{ name = && }"), ("traceql", "name")],
)
def test_what_is_wrong_is_found(language: str, text: str) -> None:
    (parsed,) = parse(language, [text])  # type: ignore[arg-type]
    assert parsed.errors != ()


def test_names_that_do_not_exist_are_found() -> None:
    (parsed,) = parse(
        "promql", ['sum by (nothing) (torch_op_calls_total{torch_op="x"}) + torch_op_call_total']
    )
    assert unknown_names(parsed, known_labels()) == [
        "torch_op_call_total",
        "torch_op_calls_total: torch_op",
        "nothing",
    ]
