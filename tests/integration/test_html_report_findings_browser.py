"""Findings on the HTML report in Chromium: what they say, where they lead; by keyboard, on a phone."""

from __future__ import annotations

import pytest
import torch
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from otel_torchprof.recording import EventKind, RecordingBuilder, StepFlags
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.finding_recordings import HOSTILE_FILE, HOSTILE_FUNCTION, recording_with_findings
from tests.support.pattern_findings import record_steps
from tests.support.report_recordings import training_recording

MS = 1_000_000
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
        "fill (fill.py:7)", "confidence\nhigh", "195 µs (19.5 % of the time)", "39, 19.5 a step",
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
    browser.show(training_recording(2))
    assert browser.find("#findings-hint").text == "No known cause of slowness was found."
    browser.click("#findings-not-checked summary")
    assert "tensor-from-list: needs shapes of inputs (record_shapes)" in browser.texts(
        "#findings-not-checked li"
    )


def test_a_step_that_stands_out_is_named_where_nothing_repeats(browser: Browser) -> None:
    browser.show(training_recording(5))
    hint = browser.find("#findings-hint")
    assert hint.text == (
        "No known cause of slowness that repeats was found. "
        "One step stands out: step 1 took 200 µs, 2.0 times the median."
    )
    browser.click("#findings-hint a")
    assert browser.find("#step-panel h3").text == "Step 1"
    assert browser.run("return location.hash") == "#step-1"


def test_shares_of_findings_are_of_one_time(browser: Browser) -> None:
    builder = RecordingBuilder()
    builder.add_track("main")
    builder.add_step(0, 1_000 * MS, 0, flags=StepFlags.HAS_NUMBER)
    for start in range(
        100, 900, 160
    ):  # the first event begins later than the recording, the last ends before
        loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        builder.add_event(loading, start * MS, (start + 80) * MS, kind=EventKind.USER)
        builder.add_event("aten::mm", (start + 80) * MS, (start + 160) * MS)
    browser.show(builder.finish())
    assert "Shares are of the 800 ms from the first event to the last." in browser.find("#findings-hint").text
    finding = browser.find(COSTLY).text
    assert "50% of the time goes into loading" in finding
    assert "cost\n400 ms (50.0 % of the time)" in finding


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
