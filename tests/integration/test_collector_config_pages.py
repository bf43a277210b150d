"""Dashboards over hours of a training, drawn without Grafana: every panel has something to show."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.support.dashboard_page import Span, page, shown
from tests.support.dashboards import Json, dashboards, panels
from tests.support.prometheus import PrometheusServer
from tests.support.training_history import history_server


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[PrometheusServer, Span]]:
    with history_server(tmp_path_factory.mktemp("history")) as (server, times):
        yield server, Span(*times)


@pytest.mark.parametrize("dashboard", dashboards(), ids=lambda dashboard: str(dashboard["uid"]))
def test_every_panel_shows_something(dashboard: Json, history: tuple[PrometheusServer, Span]) -> None:
    text = page(dashboard, *history)
    sections = re.findall(r"<h3>(.*?)</h3>(.*?)</section>", text, re.S)
    assert [title for title, _ in sections] == [panel["title"] for panel in panels(dashboard)]
    drawn = re.compile(r"<polyline|<polygon|<rect|<td>|class=\"number\"|<code>")
    assert [title for title, body in sections if "No data" in body or not drawn.search(body)] == []
    assert "nan" not in "".join(re.findall(r"points=\"(.*?)\"", text))


def test_yesterday_is_beside_today(history: tuple[PrometheusServer, Span]) -> None:
    (training,) = (item for item in dashboards() if item["uid"] == "torchprof-training")
    legends = re.findall(r"</i>(.*?): ([\d.]+ ms)</div>", page(training, *history))
    by_name = dict(legends)
    today, yesterday = by_name["bert-pretraining train"], by_name["bert-pretraining train yesterday"]
    assert 200 < float(today.split()[0]) < 300
    assert 200 < float(yesterday.split()[0]) < 300


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, "s", "0 s"),
        (2.5e-5, "s", "25 µs"),
        (0.25, "s", "250 ms"),
        (90.0, "s", "1.5 min"),
        (0.125, "percentunit", "12.5 %"),
        (3 * 2**30, "bytes", "3 GiB"),
        (2048.0, "Bps", "2 KiB/s"),
        (1500.0, "cps", "1500 /s"),
        (25_000_000.0, "short", "25 M"),
        (4.0, "none", "4"),
    ],
)
def test_values_have_their_unit(value: float, unit: str, text: str) -> None:
    assert shown(value, unit) == text
