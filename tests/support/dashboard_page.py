"""Dashboards with the results of their real queries, as one HTML page without Grafana: to be looked at.

    python -m tests.support.dashboard_page FOLDER

writes a page of each dashboard, with a simulated training in a Prometheus that is started for it.
"""

from __future__ import annotations

import html
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from tests.support.dashboards import Json, PanelQuery, dashboards, panels, queries_of
from tests.support.prometheus import PrometheusServer
from tests.support.training_history import SCRAPE_INTERVAL_S, history_server

_COLORS = (
    "#3274d9",
    "#56a64b",
    "#e0752d",
    "#8f3bb8",
    "#e02f44",
    "#1f9e9e",
    "#b8860b",
    "#6d7a8c",
    "#c15c9b",
    "#7a9c1e",
)
_LEVELS = {"green": "#3f8f4f", "orange": "#c7731a", "red": "#c4303f"}
_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 560, 190, 62, 18
_TICKS = 4
_POINTS = 120

_STYLE = """
body { margin: 16px; background: #f4f5f7; color: #1f2430; font: 13px/1.4 system-ui, sans-serif; }
h1 { font-size: 20px; margin: 0 0 4px; } h2 { font-size: 14px; grid-column: 1 / -1; margin: 10px 0 0; }
p { margin: 0 0 6px; color: #5b6270; }
main { display: grid; grid-template-columns: repeat(24, 1fr); gap: 8px; }
section { background: #fff; border: 1px solid #dcdfe5; border-radius: 4px; padding: 8px; min-width: 0; }
h3 { font-size: 13px; margin: 0; } section p { font-size: 11px; }
svg { width: 100%; display: block; } svg text { font: 10px system-ui, sans-serif; fill: #5b6270; }
.number { font-size: 22px; color: #fff; border-radius: 4px; padding: 8px; text-align: center; }
.number small { display: block; font-size: 11px; }
.legend { font-size: 11px; columns: 2; }
.legend i { display: inline-block; width: 10px; height: 3px; margin-right: 5px; }
table { width: 100%; border-collapse: collapse; font-size: 12px; }
td, th { text-align: right; padding: 2px 8px; border-bottom: 1px solid #eceef2; }
td:first-child, th:first-child { text-align: left; }
code { font-size: 11px; overflow-wrap: anywhere; } .empty { color: #c4303f; }
"""


@dataclass(frozen=True)
class Span:
    """What time a page shows."""

    start_s: float
    end_s: float

    @property
    def step_s(self) -> float:
        return (self.end_s - self.start_s) / _POINTS


@dataclass(frozen=True)
class Curve:
    """One series of a panel, with a value, or none, for each point in time."""

    name: str
    values: Sequence[float]


def page(dashboard: Json, server: PrometheusServer, span: Span) -> str:
    """The page of `dashboard` with what `server` answers for `span`."""
    parts = []
    for panel in dashboard["panels"]:
        if panel["type"] == "row":
            parts.append(f"<h2>{html.escape(panel['title'])}</h2>")
            continue
        title, question = html.escape(panel["title"]), html.escape(panel["description"])
        body = _body(dashboard, panel, server, span)
        parts.append(
            f'<section style="grid-column: span {panel["gridPos"]["w"]}">'
            f"<h3>{title}</h3><p>{question}</p>{body}</section>"
        )
    title, question = html.escape(dashboard["title"]), html.escape(dashboard["description"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
        f"<h1>{title}</h1><p>{question}</p><main>{''.join(parts)}</main></html>"
    )


def shown(value: float, unit: str) -> str:
    """The value as Grafana shows one of this unit."""
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit in {"bytes", "Bps"}:
        power = min(int(math.log(max(abs(value), 1.0), 1024)), 4)
        return f"{value / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}" + "/s" * (
            unit == "Bps"
        )
    if unit == "s":
        for size, name in ((60.0, "min"), (1.0, "s"), (1e-3, "ms")):
            if abs(value) >= size or (value == 0 and name == "s"):
                return f"{value / size:.3g} {name}"
        return f"{value * 1e6:.3g} µs"
    suffix = {"cps": " /s", "ops": " /s"}.get(unit, "")
    for size, name in ((1e6, " M"), (1e3, " k"), (0.0, "")):
        if abs(value) >= 10 * size:
            return f"{value / (size or 1.0):.4g}{name}{suffix}"
    return "none"  # no number


def _body(dashboard: Json, panel: Json, server: PrometheusServer, span: Span) -> str:
    queries = list(queries_of(dashboard, panel))
    unit = panel["fieldConfig"]["defaults"].get("unit", "none")
    if queries[0].language == "traceql":
        return "".join(f"<p>Asks Tempo:</p><code>{html.escape(query.filled())}</code>" for query in queries)
    if panel["type"] == "stat":
        return _numbers(panel, queries, server, span, unit)
    if panel["type"] == "table":
        return _table(panel, queries, server, span)
    curves = [curve for query in queries for curve in _curves(query, server, span)]
    if not curves:
        return '<p class="empty">No data</p>'
    if panel["type"] == "heatmap":
        return _heatmap(curves, span, unit)
    is_stacked = panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"] == "normal"
    return _chart(curves, span, unit, is_stacked)


def _filled(query: PanelQuery, span: Span) -> str:
    rate_interval = f"{int(4 * SCRAPE_INTERVAL_S)}s"
    return query.filled(rate_interval=rate_interval, time_range=f"{int(span.end_s - span.start_s)}s")


def _name(query: PanelQuery, labels: dict[str, str]) -> str:
    name = query.legend
    for label, value in labels.items():
        name = name.replace(f"{{{{{label}}}}}", value)
    return name


def _curves(query: PanelQuery, server: PrometheusServer, span: Span) -> list[Curve]:
    found = server.query_range(_filled(query, span), span.start_s, span.end_s, span.step_s)
    curves = []
    for series in found:
        by_time = {
            round((time_s - span.start_s) / span.step_s): float(value) for time_s, value in series["values"]
        }
        values = [by_time.get(index, math.nan) for index in range(_POINTS + 1)]
        curves.append(Curve(_name(query, series["metric"]), values))
    return curves


def _numbers(
    panel: Json, queries: Sequence[PanelQuery], server: PrometheusServer, span: Span, unit: str
) -> str:
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    boxes = []
    for query in queries:
        for series in server.query(_filled(query, span), span.end_s):
            value = float(series["value"][1])
            color = [step["color"] for step in steps if step["value"] is None or value >= step["value"]][-1]
            boxes.append(
                f'<div class="number" style="background: {_LEVELS[color]}">{shown(value, unit)}'
                f"<small>{html.escape(_name(query, series['metric']))}</small></div>"
            )
    return "".join(boxes) or '<p class="empty">No data</p>'


def _table(panel: Json, queries: Sequence[PanelQuery], server: PrometheusServer, span: Span) -> str:
    columns = panel["fieldConfig"]["overrides"]
    units = [column["properties"][0]["value"] for column in columns]
    rows: dict[str, list[float]] = {}
    for index, query in enumerate(queries):
        for series in server.query(_filled(query, span), span.end_s):
            row = rows.setdefault(" ".join(series["metric"].values()), [math.nan] * len(queries))
            row[index] = float(series["value"][1])
    head = "".join(f"<th>{html.escape(column['matcher']['options'])}</th>" for column in columns)
    body = "".join(
        f"<tr><td>{html.escape(name)}</td>"
        + "".join(f"<td>{shown(value, unit)}</td>" for value, unit in zip(row, units, strict=True))
        + "</tr>"
        for name, row in sorted(rows.items(), key=lambda item: -item[1][0])
    )
    return f"<table><tr><th></th>{head}</tr>{body}</table>"


def _chart(curves: Sequence[Curve], span: Span, unit: str, is_stacked: bool) -> str:
    drawn = _stacked(curves) if is_stacked else curves
    highest = (
        max((value for curve in drawn for value in curve.values if not math.isnan(value)), default=0.0) or 1.0
    )
    parts = [_axes(span, [highest * tick / _TICKS for tick in range(_TICKS + 1)], unit, highest)]
    order = list(enumerate(drawn))
    # The highest of a stack first, so that what is below it covers it.
    for index, curve in reversed(order) if is_stacked else order:
        color = _COLORS[index % len(_COLORS)]
        for points in _runs(curve.values, highest):
            if is_stacked:
                floor = f"{points[-1].split(',')[0]},{_HEIGHT} {points[0].split(',')[0]},{_HEIGHT}"
                parts.append(f'<polygon points="{" ".join(points)} {floor}" fill="{color}"/>')
            else:
                line = f'fill="none" stroke="{color}" stroke-width="1.5"'
                parts.append(f'<polyline points="{" ".join(points)}" {line}/>')
    legend = "".join(
        f'<div><i style="background: {_COLORS[index % len(_COLORS)]}"></i>{html.escape(curve.name)}: '
        f"{shown(_last(curve.values), unit)}</div>"
        for index, curve in enumerate(curves)
    )
    return _svg(parts) + f'<div class="legend">{legend}</div>'


def _stacked(curves: Sequence[Curve]) -> list[Curve]:
    total = [0.0] * (_POINTS + 1)
    stacked = []
    for curve in curves:
        total = [
            below + (0.0 if math.isnan(value) else value)
            for below, value in zip(total, curve.values, strict=True)
        ]
        stacked.append(Curve(curve.name, total))
    return stacked


def _heatmap(curves: Sequence[Curve], span: Span, unit: str) -> str:
    """Buckets from below to above; the darker, the more values. Prometheus's counts include those below."""
    by_bound = sorted(((float(curve.name), curve.values) for curve in curves), key=lambda item: item[0])
    below = [0.0] * (_POINTS + 1)
    rows = []
    for bound, values in by_bound:
        rows.append((bound, [value - under for value, under in zip(values, below, strict=True)]))
        below = list(values)
    used = [index for index, (_, values) in enumerate(rows) if any(value > 0 for value in values)]
    rows = rows[max(used[0] - 1, 0) : used[-1] + 2]
    most = max(value for _, values in rows for value in values if not math.isnan(value))
    height, width = _HEIGHT / len(rows), (_WIDTH - _LEFT) / (_POINTS + 1)
    parts = []
    for level, (bound, values) in enumerate(rows):
        top = _HEIGHT - (level + 1) * height
        label = f"to {shown(bound, unit)}"
        parts.append(f'<text x="{_LEFT - 4}" y="{top + height - 3:.1f}" text-anchor="end">{label}</text>')
        for index, value in enumerate(values):
            if value > 0:
                place = f'x="{_LEFT + index * width:.1f}" y="{top:.1f}" width="{width + 0.3:.1f}"'
                color = f'fill="#3274d9" fill-opacity="{value / most:.2f}"'
                parts.append(f'<rect {place} height="{height:.1f}" {color}/>')
    return _svg([*parts, _axes(span, [], unit, 1.0)])


def _axes(span: Span, ticks: Sequence[float], unit: str, highest: float) -> str:
    lines = []
    for tick in ticks:
        y = _HEIGHT - tick / highest * (_HEIGHT - 8)
        lines.append(f'<line x1="{_LEFT}" x2="{_WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e6e8ec"/>')
        lines.append(f'<text x="{_LEFT - 4}" y="{y + 3:.1f}" text-anchor="end">{shown(tick, unit)}</text>')
    for share in (0.0, 0.25, 0.5, 0.75):
        at = datetime.fromtimestamp(span.start_s + share * (span.end_s - span.start_s), timezone.utc)
        x = _LEFT + share * (_WIDTH - _LEFT)
        lines.append(f'<text x="{x:.1f}" y="{_HEIGHT + 14}">{at:%H:%M}</text>')
    return "".join(lines)


def _runs(values: Sequence[float], highest: float) -> list[list[str]]:
    """Corners of the lines, one list for each stretch without gaps."""
    runs: list[list[str]] = [[]]
    for index, value in enumerate(values):
        if math.isnan(value):
            runs.append([])
            continue
        x = _LEFT + index / _POINTS * (_WIDTH - _LEFT)
        runs[-1].append(f"{x:.1f},{_HEIGHT - max(value, 0.0) / highest * (_HEIGHT - 8):.1f}")
    return [run for run in runs if run]


def _svg(parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + _BOTTOM}" role="img">{"".join(parts)}</svg>'


def _last(values: Sequence[float]) -> float:
    return next((value for value in reversed(values) if not math.isnan(value)), math.nan)


def main() -> None:
    """Write the pages into the folder that the command names."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, history_server(Path(scratch)) as (server, span):
        for dashboard in dashboards():
            path = folder / f"{dashboard['uid']}.html"
            path.write_text(page(dashboard, server, Span(*span)), "utf-8")
            print(path, len(panels(dashboard)), "panels")


if __name__ == "__main__":
    main()
