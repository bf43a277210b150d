"""Findings on the HTML report in Chromium: what they say, where they lead; by keyboard, on a phone."""

from __future__ import annotations

import pytest
import torch
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.finding_recordings import HOSTILE_FILE, HOSTILE_FUNCTION, recording_with_findings
from tests.support.pattern_findings import record_steps
from tests.support.report_recordings import training_recording

COSTLY, CHEAP = '.finding[data-finding="0"]', '.finding[data-finding="1"]'
TO_FLAME, TO_LANES = ".actions button:nth-of-type(1)", ".actions button:nth-of-type(2)"


def is_in_view(browser: Browser, selector: str) -> bool:
    """Whether all of its height can be seen, below the bar that stays at the top."""
    found = browser.run(
        f"const box = document.querySelector('{selector}').getBoundingClientRect();"
        "const bar = document.querySelector('.bar').getBoundingClientRect();"
        "return box.top >= bar.bottom - 1 && box.bottom <= innerHeight + 1;"
    )
    return bool(found)


def test_a_finding_says_what_where_and_how_to_mend_it(browser: Browser) -> None:
    browser.show(recording_with_findings())
    costly = browser.find(COSTLY).text
    for said in (
        "high", "A loop goes through a tensor one element at a time", "may save 97.5 µs to 191 µs",
        "fill (fill.py:7)", "confidence\nhigh", "195 µs (19.5 % of the recording)", "39, 19.5 a step",
        "/home/me/fill.py:7", "Write it as one operation on the whole tensor.",
    ):  # fmt: skip
        assert said in costly
    assert "torch.arange(100)" in browser.find(f"{COSTLY} pre").text
    assert (browser.find(f"{COSTLY} a").get_attribute("href") or "").startswith("https://docs.pytorch.org/")
    assert not browser.find(f"{CHEAP} pre").is_displayed()  # closed until asked for


def test_it_leads_to_the_flame_graph(browser: Browser) -> None:
    browser.show(recording_with_findings())
    browser.click(f"{COSTLY} {TO_FLAME}")
    assert browser.texts("#flame-path button") == ["everything", "fill", "aten::select"]
    assert (browser.focused.get_attribute("aria-label") or "").startswith("aten::select,")
    assert is_in_view(browser, "#flame-graph")
    browser.press(Keys.ESCAPE)
    assert browser.texts("#flame-path button") == ["everything", "fill"]


def test_it_leads_to_the_lanes_and_back(browser: Browser) -> None:
    browser.show(recording_with_findings())
    browser.click(f"{CHEAP} summary")
    browser.click(f"{CHEAP} {TO_LANES}")
    strip = browser.find(".strip").rect
    (mark,) = browser.driver.find_elements(By.CSS_SELECTOR, ".mark")
    assert mark.rect["x"] - strip["x"] == pytest.approx(strip["width"] * 600 / 1000, abs=2)
    assert mark.rect["width"] == pytest.approx(strip["width"] * 40 / 1000, abs=2)
    assert is_in_view(browser, "#activity-marked")
    assert browser.find("#activity-marked").text.startswith(
        "Marked: A loop goes through a tensor one element at a time, 39 events."
    )
    browser.press(Keys.ENTER)  # the way back has the focus
    assert browser.driver.find_elements(By.CSS_SELECTOR, ".mark") == []
    assert not browser.find("#activity-marked").is_displayed()
    assert browser.run(f"return document.activeElement.closest('{CHEAP}') !== null")


def test_it_works_by_keyboard(browser: Browser) -> None:
    browser.show(recording_with_findings())
    browser.run(f"document.querySelector('{CHEAP} summary').focus()")
    browser.press(Keys.ENTER)
    assert browser.find(f"{CHEAP} pre").is_displayed()
    browser.press(Keys.TAB)
    assert browser.focused.tag_name == "pre"  # it may be wider than the page
    browser.press(Keys.TAB)
    assert browser.focused.text == "Show in the flame graph"
    browser.press(Keys.ENTER)
    assert browser.texts("#flame-path button") == ["everything", HOSTILE_FUNCTION, "aten::select"]


def test_what_was_not_checked_unfolds(browser: Browser) -> None:
    browser.show(training_recording())
    assert browser.find("#findings-hint").text == "No known cause of slowness was found."
    browser.click("#findings-not-checked summary")
    assert "tensor-from-list: needs shapes of inputs (record_shapes)" in browser.texts(
        "#findings-not-checked li"
    )


def test_search_narrows_the_findings(browser: Browser) -> None:
    browser.show(recording_with_findings())
    browser.press("/", "fill.py")
    assert [browser.find(card).is_displayed() for card in (COSTLY, CHEAP)] == [True, False]
    browser.press("x")
    assert browser.find("#findings-empty").is_displayed()
    browser.press(Keys.ESCAPE)
    assert [browser.find(card).is_displayed() for card in (COSTLY, CHEAP)] == [True, True]
    assert not browser.find("#findings-empty").is_displayed()


def test_hostile_places_are_text(browser: Browser) -> None:
    browser.show(recording_with_findings())
    browser.click(f"{CHEAP} summary")
    assert HOSTILE_FUNCTION in browser.find(CHEAP).text
    assert f"{HOSTILE_FILE}:3" in browser.find(CHEAP).text
    assert browser.run("return document.querySelectorAll('img, main b').length") == 0
    assert browser.driver.title == "run.tprof · otel-torchprof report"


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_open_findings_stick_out_nowhere(browser: Browser, size: tuple[int, int]) -> None:
    browser.show(recording_with_findings(), size)
    browser.run("for (const one of document.querySelectorAll('#findings details')) one.open = true")
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    right = browser.run("return document.querySelector('#findings').getBoundingClientRect().right")
    inner = "#findings :is(summary, dl, pre, .actions, .gain, .where, li)"
    assert (
        browser.run(
            f"return Math.max(...[...document.querySelectorAll('{inner}')]"
            ".map((element) => element.getBoundingClientRect().right))"
        )
        <= right
    )


def test_a_real_loop(browser: Browser) -> None:
    table = torch.zeros(64, 64)

    def fills(_step: int) -> None:
        for index in range(64):
            table[index] = index

    browser.show(record_steps(fills))
    code = fills.__code__
    assert f"{code.co_filename}:{code.co_firstlineno}" in browser.find(COSTLY).text
    browser.click(f"{COSTLY} {TO_FLAME}")
    assert "fills" in browser.texts("#flame-path button")[-2]
