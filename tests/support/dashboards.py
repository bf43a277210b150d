"""The shipped dashboards, rules and configuration, and the queries in them as servers get them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "collector-config"
DASHBOARD_FILES = sorted((FOLDER / "grafana" / "dashboards").glob("*.json"))
RULE_FILES = (FOLDER / "recording-rules.yml", FOLDER / "alerts.yml")


def load_yaml(name: str) -> Any:
    """The content of a file of `collector-config/`."""
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))


def dashboards() -> list[Json]:
    return [json.loads(path.read_text("utf-8")) for path in DASHBOARD_FILES]


def panels(dashboard: Json) -> list[Json]:
    """The panels of a dashboard without its headings."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


@dataclass(frozen=True)
class PanelQuery:
    """One query of a panel, with the variables of the page still in it."""

    dashboard: str
    panel: str
    language: str
    text: str
    legend: str
    instant: bool

    def filled(self, *, rate_interval: str = "1m", time_range: str = "1h") -> str:
        """The query for all jobs and all ranks."""
        values = {
            "$__rate_interval": rate_interval,
            "$__range": time_range,
            "$job": ".*",
            "$instance": ".*",
        }
        text = self.text
        for variable, value in values.items():
            text = text.replace(variable, value)
        return text


def panel_queries() -> list[PanelQuery]:
    """All queries of all dashboards."""
    return [
        query
        for dashboard in dashboards()
        for panel in panels(dashboard)
        for query in queries_of(dashboard, panel)
    ]


def queries_of(dashboard: Json, panel: Json) -> Iterator[PanelQuery]:
    for target in panel["targets"]:
        is_traces = panel["datasource"]["type"] == "tempo"
        yield PanelQuery(
            dashboard["title"],
            panel["title"],
            "traceql" if is_traces else "promql",
            target["query" if is_traces else "expr"],
            target.get("legendFormat", ""),
            bool(target.get("instant")),
        )


def rules() -> list[Json]:
    """All recording rules, then all alerts."""
    return [
        rule
        for path in RULE_FILES
        for group in yaml.safe_load(path.read_text("utf-8"))["groups"]
        for rule in group["rules"]
    ]


def alerts() -> list[Json]:
    return [rule for rule in rules() if "alert" in rule]
