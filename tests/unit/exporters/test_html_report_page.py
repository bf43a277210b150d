"""The HTML report as a file: what it may run, and that names stay text in it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.cli import main as cli
from otel_torchprof.exporters.html_report import write_report
from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.exporters.html_report.page import make_page, script_safe_json
from otel_torchprof.recording import Recording
from tests.support.report_recordings import HOSTILE_NAMES, hostile_recording, training_recording


class Page(HTMLParser):
    """The elements of a page, and the text of those that hold no markup."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem is not None:  # within a script or a style
            self.raw[self.cdata_elem][-1] += data

    @property
    def policy(self) -> str:
        (policy,) = [
            attributes["content"]
            for tag, attributes in self.elements
            if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        ]
        assert policy is not None
        return policy

    @property
    def data(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.raw["script"][0])
        return data


def page_of(recording: Recording, tmp_path: Path, title: str = "a recording") -> Page:
    path = tmp_path / "page.html"
    write_report(recording, path, title=title)
    return Page(path.read_bytes())


def test_the_path_may_be_text(tmp_path: Path) -> None:
    write_report(training_recording(), str(tmp_path / "page.html"))
    assert Page((tmp_path / "page.html").read_bytes()).data["title"] == "page.html"


def test_hostile_names_add_no_element(tmp_path: Path) -> None:
    harmless = page_of(training_recording(), tmp_path)
    hostile = page_of(hostile_recording(), tmp_path, title=HOSTILE_NAMES[0])
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in harmless.elements]
    assert hostile.raw["script"][1] == harmless.raw["script"][1]
    as_kept = [
        name.replace("\ud800", "\ufffd" * 3) for name in HOSTILE_NAMES
    ]  # no UTF-8 for a lone surrogate
    assert set(hostile.data["names"]) == {shown(name) for name in as_kept}
    assert hostile.data["title"] == HOSTILE_NAMES[0]


@given(st.recursive(st.text() | st.integers() | st.none(), lambda inner: st.lists(inner, max_size=3)))
def test_data_cannot_leave_its_element(value: Any) -> None:
    text = script_safe_json({"value": value})
    assert not set("<>&") & set(text)
    assert text.isascii()
    assert json.loads(text) == {"value": value}


def test_places_of_the_template_in_data_are_text() -> None:
    page = Page(make_page({"name": "{{script}} {{data}}"}))
    assert page.data == {"name": "{{script}} {{data}}"}


def test_the_policy_allows_this_script_and_style_and_nothing_else(tmp_path: Path) -> None:
    page = page_of(training_recording(), tmp_path)
    rules = dict(rule.split(" ", 1) for rule in page.policy.split("; "))

    def digest(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    assert rules == {
        "default-src": "'none'",
        "script-src": digest(page.raw["script"][1]),
        "style-src": digest(page.raw["style"][0]),
        "base-uri": "'none'",
        "form-action": "'none'",
    }


def test_the_page_refers_to_nothing_outside(tmp_path: Path) -> None:
    page = page_of(training_recording(), tmp_path)
    references = [
        value
        for _tag, attributes in page.elements
        for name, value in attributes.items()
        if name in {"src", "href"}
    ]
    assert references == ["#operators"]
    code = "".join([page.raw["script"][1], *page.raw["style"]])
    assert re.findall(r"https?:|url\(|@import|innerHTML|insertAdjacent|document\.write|eval\(", code) == []


def test_every_control_and_figure_has_a_label(tmp_path: Path) -> None:
    page = page_of(training_recording(), tmp_path)
    ids = {attributes["id"] for _tag, attributes in page.elements if "id" in attributes}
    for tag, attributes in page.elements:
        if tag in {"section", "nav"} or attributes.get("role") in {"listbox", "tree"}:
            assert attributes.get("aria-label") or attributes.get("aria-labelledby") in ids, (tag, attributes)


def test_report_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, page = tmp_path / "run.tprof", tmp_path / "page.html"
    training_recording().save(source)
    assert cli.main(["report", str(source), "-o", str(page)]) == 0
    assert capsys.readouterr().out.startswith(f"{page}: 24 events in ")
    assert Page(page.read_bytes()).data["title"] == "run.tprof"


def test_report_writes_a_page_about_any_format_with_its_problems(tmp_path: Path) -> None:
    source, page = tmp_path / "trace.json", tmp_path / "page.html"
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 1, "tid": 1, "ts": 10, "bp": "e"},
        {"name": "no phase"},
    ]
    source.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    assert cli.main(["report", str(source), "-o", str(page), "--json"]) == 0
    data = Page(page.read_bytes()).data
    assert data["facts"]["problems"] == [["no_phase", 1]]  # and none of the flow, which is harmless
    assert data["names"] == ["aten::mm"]


def test_a_page_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "run.tprof"
    training_recording().save(source)
    assert cli.main(["report", str(source), "-o", str(tmp_path / "nowhere" / "page.html")]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert [path.name for path in tmp_path.iterdir()] == ["run.tprof"]
