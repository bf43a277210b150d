"""Panels, rows and dashboards, and the JSON that Grafana has for them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
PanelKind = Literal["stat", "timeseries", "heatmap", "table", "traces"]

# Short, in queries, for the labels by which the variables at the top of a page narrow them, and for the
# time in which Grafana finds enough scrapes for a rate.
SHORT = {
    "@ranks": 'job=~"$job", instance=~"$instance"',
    "@job": 'job=~"$job"',
    "@rate": "$__rate_interval",
}

PROMETHEUS: Json = {"type": "prometheus", "uid": "${prometheus}"}
TRACES: Json = {"type": "tempo", "uid": "${traces}"}
TAG = "torchprof"
GRID_WIDTH = 24
_HEIGHTS: dict[PanelKind, int] = {"stat": 4, "timeseries": 8, "heatmap": 8, "table": 10, "traces": 9}


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL, or TraceQL in a panel of traces. `legend` is Grafana's template: `{{instance}}`."""

    text: str
    legend: str = ""
    exemplars: bool = False


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `question` is what it answers, `unit` one of Grafana's.

    `warn` and `alarm` are where colours change; an `alarm` below `warn` means that small
    values are the bad ones.
    """

    kind: PanelKind
    title: str
    question: str
    queries: Sequence[Query]
    unit: str = "none"
    width: int = 12
    stacked: bool = False
    warn: float | None = None
    alarm: float | None = None
    columns: Sequence[tuple[str, str]] = ()  # of a table: name and unit of each query's value


@dataclass(frozen=True, slots=True)
class Row:
    """Panels under one heading, laid out from left to right."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One page; `uid` is also the name of its file."""

    uid: str
    title: str
    question: str
    rows: Sequence[Row] = field(default_factory=tuple)

    def to_json(self) -> Json:
        return {
            "uid": self.uid,
            "title": self.title,
            "description": self.question,
            "tags": [TAG],
            "schemaVersion": 39,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "timezone": "browser",
            "links": [_link_to_the_others()],
            "templating": {"list": _variables()},
            "annotations": {"list": [_firing_alerts()]},
            "panels": list(_panels(self.rows)),
        }


def expanded(text: str) -> str:
    """The query as Grafana takes it, without short names."""
    for short, meaning in SHORT.items():
        text = text.replace(short, meaning)
    return text


def _panels(rows: Sequence[Row]) -> Iterator[Json]:
    number, top = 1, 0
    for row in rows:
        place = {"x": 0, "y": top, "w": GRID_WIDTH, "h": 1}
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "gridPos": place,
            "panels": [],
        }
        number, top, left, height = number + 1, top + 1, 0, 0
        for panel in row.panels:
            if left + panel.width > GRID_WIDTH:
                top, left, height = top + height, 0, 0
            height = max(height, _HEIGHTS[panel.kind])
            place = {"x": left, "y": top, "w": panel.width, "h": _HEIGHTS[panel.kind]}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            number, left = number + 1, left + panel.width
        top += height


def _panel(panel: Panel) -> Json:
    source = TRACES if panel.kind == "traces" else PROMETHEUS
    return {
        "type": "table" if panel.kind == "traces" else panel.kind,
        "title": panel.title,
        "description": panel.question,
        "datasource": source,
        "targets": [
            {"refId": chr(ord("A") + index), "datasource": source, **_target(panel.kind, query)}
            for index, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _field_defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
        "transformations": _transformations(panel),
    }


def _target(kind: PanelKind, query: Query) -> Json:
    text = expanded(query.text)
    if kind == "traces":
        return {"queryType": "traceql", "query": text, "limit": 20, "tableType": "spans"}
    target: Json = {"expr": text, "legendFormat": query.legend or "__auto", "range": True, "instant": False}
    if kind in {"stat", "table"}:
        target |= {"range": False, "instant": True}
    if kind == "table":
        target["format"] = "table"
    if kind == "heatmap":
        target["format"] = "heatmap"
    if query.exemplars:
        target["exemplar"] = True
    return target


def _field_defaults(panel: Panel) -> Json:
    if panel.kind == "traces":
        return {}
    defaults: Json = {"unit": panel.unit, "thresholds": _thresholds(panel)}
    if panel.kind == "timeseries":
        defaults["min"] = 0
        defaults["custom"] = {
            "fillOpacity": 40 if panel.stacked else 5,
            "stacking": {"mode": "normal" if panel.stacked else "none"},
            "showPoints": "never",
            "spanNulls": False,
            "thresholdsStyle": {"mode": "off" if panel.warn is None else "dashed"},
        }
    return defaults


def _thresholds(panel: Panel) -> Json:
    base: Json = {"color": "green", "value": None}
    if panel.warn is None or panel.alarm is None:
        return {"mode": "absolute", "steps": [base]}
    if panel.alarm < panel.warn:
        rising = [("red", None), ("orange", panel.alarm), ("green", panel.warn)]
    else:
        rising = [("green", None), ("orange", panel.warn), ("red", panel.alarm)]
    return {"mode": "absolute", "steps": [{"color": color, "value": value} for color, value in rising]}


def _options(panel: Panel) -> Json:
    match panel.kind:
        case "stat":
            return {
                "colorMode": "background_solid",
                "reduceOptions": {"calcs": ["lastNotNull"]},
                "textMode": "auto",
            }
        case "timeseries":
            return {
                "legend": {"displayMode": "table", "placement": "right", "calcs": ["mean", "lastNotNull"]},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
        case "heatmap":
            return {
                "calculate": False,
                "yAxis": {"unit": panel.unit},
                "color": {"scheme": "Blues", "mode": "scheme"},
            }
        case "table":
            return {"sortBy": [{"displayName": panel.columns[0][0], "desc": True}]}
        case "traces":
            return {}


def _transformations(panel: Panel) -> list[Json]:
    """Of a table: one row for each set of labels, with the value of every query in a column of its own."""
    if panel.kind != "table":
        return []
    names = {f"Value #{chr(ord('A') + index)}": name for index, (name, _) in enumerate(panel.columns)}
    return [
        {"id": "merge", "options": {}},
        {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": names}},
    ]


def _overrides(panel: Panel) -> list[Json]:
    return [
        {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "unit", "value": unit}]}
        for name, unit in panel.columns
    ]


def _variables() -> list[Json]:
    return [
        {"name": "prometheus", "label": "Metrics", "type": "datasource", "query": "prometheus"},
        {"name": "traces", "label": "Traces", "type": "datasource", "query": "tempo"},
        # All jobs are those with steps: Prometheus knows others, of which a panel of `up` must not speak.
        _label_variable("job", "Job", "label_values(torch_step_number, job)", all_value=None),
        # All ranks is any: a pattern of 512 names would be in each query.
        _label_variable(
            "instance", "Rank", 'label_values(torch_step_number{job=~"$job"}, instance)', all_value=".*"
        ),
    ]


def _label_variable(name: str, label: str, query: str, all_value: str | None) -> Json:
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": PROMETHEUS,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 7,
        "multi": True,
        "includeAll": True,
        "allValue": all_value,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _link_to_the_others() -> Json:
    return {
        "type": "dashboards",
        "title": "PyTorch",
        "tags": [TAG],
        "asDropdown": False,
        "includeVars": True,
        "keepTime": True,
    }


def _firing_alerts() -> Json:
    return {
        "name": "Alerts",
        "datasource": PROMETHEUS,
        "enable": True,
        "iconColor": "red",
        "expr": expanded('ALERTS{alertname=~"Torch.*", alertstate="firing", @job}'),
        "titleFormat": "{{alertname}}",
        "step": "60s",
    }
