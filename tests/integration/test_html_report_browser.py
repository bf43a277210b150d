"""The HTML report in Chromium, from a file: mouse, keyboard, search, a phone; no error, no request."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from otel_torchprof.exporters import export
from otel_torchprof.exporters.html_report.names import shown
from otel_torchprof.importers import load
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recording import Recording, RecordingBuilder, StepFlags
from tests.support.browser import DESKTOP, PHONE, Browser
from tests.support.module_recordings import nested_modules
from tests.support.report_recordings import HOSTILE_NAMES, hostile_recording, training_recording
from tests.support.snapshots import training_snapshot
from tests.support.training_loop import ODD_NAMES, run_captured_steps

MS = 1_000_000


def memory_recording() -> Recording:
    """The history of a device as a snapshot of its allocator tells it."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        file.write(pickle.dumps(training_snapshot()))
        file.flush()
        return load(file.name)[0]


def many_ops(count: int = 60) -> Recording:
    """Ops `op 0` (1 us) to `op 59` (60 us) within one scope."""
    builder = RecordingBuilder()
    builder.add_track("python")
    builder.add_event("outer", 0, count * 100_000)
    for number in range(count):
        builder.add_event(f"op {number}", number * 100_000, number * 100_000 + (number + 1) * 1000)
    return builder.finish()


def test_the_head_says_what_it_is_and_what_is_missing(browser: Browser) -> None:
    browser.show(training_recording(), orphan_flows=1200)
    assert browser.find("h1").text == "run.tprof"
    assert browser.driver.title == "run.tprof · otel-torchprof report"
    head = browser.find(".head").text
    assert "torch\n2.13.0" in head
    assert "700 µs\nduration" in head or "duration\n700 µs" in head
    assert browser.find("#notice-problems").text.endswith("orphan flows 1,200")
    assert browser.texts("#sections a") == [
        "Steps", "Findings", "Operators", "Flame graph", "Activity", "Devices",
    ]  # fmt: skip


def test_operators_sort_and_expand(browser: Browser) -> None:
    browser.show(many_ops())
    assert browser.texts("#operators-table td.name")[:3] == ["outer", "op 59", "op 58"]
    assert len(browser.texts("#operators-table tbody tr")) == 20
    browser.click("#operators-table .more")
    assert len(browser.texts("#operators-table tbody tr")) == 61
    assert browser.find("#operators-table .more").get_attribute("aria-expanded") == "true"
    browser.click('#operators-table button[data-key="self_ns"]')
    assert browser.texts("#operators-table td.name")[:2] == ["op 0", "op 1"]
    assert browser.find("#operators-table th.self_ns").get_attribute("aria-sort") == "ascending"
    assert browser.focused.get_attribute("data-key") == "self_ns"


def test_search_narrows_the_tables_and_marks_frames(browser: Browser) -> None:
    browser.show(many_ops())
    browser.press("/")
    assert browser.focused.get_attribute("id") == "search"
    browser.press("OP 5")
    assert browser.texts("#operators-table td.name") == [f"op {number}" for number in (*range(59, 49, -1), 5)]
    marked = {label.split(",")[0] for label in _labels(browser, ".frame.match")}
    assert marked == {f"op {number}" for number in range(50, 60)}  # `op 5` is too narrow to be seen
    assert browser.find("#found").text == "11 names, 11 frames with 9.3 % of the time"
    browser.press("x")
    assert browser.texts("#operators-table .empty") == ["No name here matches."]
    assert browser.find("#found").text == "no match"
    browser.press(Keys.ESCAPE)
    assert len(browser.texts("#operators-table tbody tr")) == 20
    assert _labels(browser, ".frame.match") == []


def _labels(browser: Browser, selector: str) -> list[str]:
    elements = browser.driver.find_elements(By.CSS_SELECTOR, selector)
    return [element.get_attribute("aria-label") or "" for element in elements]


def test_hovering_a_frame_shows_its_figures(browser: Browser) -> None:
    browser.show(training_recording())
    ActionChains(browser.driver).move_to_element(browser.frame("aten::mm")).perform()
    details = browser.find("#flame-details").text.replace("\n", " ")
    for said in ("aten::mm", "150 µs (37.5 % of all)", "120 µs (80.0 % of it)", "calls 6", "44.1 %"):
        assert said in details
    assert "device work launched 150 µs" in details


def test_a_click_zooms_and_the_path_leads_back(browser: Browser) -> None:
    browser.show(training_recording())
    whole = browser.find("#flame-graph").size["width"]
    assert browser.frame("aten::mm").size["width"] == pytest.approx(whole * 0.375, abs=2)
    browser.click(browser.frame("aten::mm"))
    assert browser.frame("aten::mm").size["width"] == pytest.approx(whole, abs=2)
    assert browser.texts("#flame-path button") == ["everything", "ProfilerStep", "forward", "aten::mm"]
    browser.click("#flame-path button")
    assert browser.frame("aten::mm").size["width"] == pytest.approx(whole * 0.375, abs=2)


def test_the_flame_graph_works_by_keyboard(browser: Browser) -> None:
    browser.show(training_recording())
    browser.run("document.querySelector('#flame-graph [tabindex=\"0\"]').focus()")

    def name() -> str:
        return (browser.focused.get_attribute("aria-label") or "").split(",")[0]

    names = [name()]
    for key in (Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_DOWN, Keys.ARROW_RIGHT, Keys.ARROW_UP):
        browser.press(key)
        names.append(name())
    assert names == ["ProfilerStep", "forward", "aten::mm", "cudaLaunchKernel", "cudaMemcpyAsync", "aten::mm"]
    assert browser.find("#flame-details h3").text == "aten::mm"
    browser.press(Keys.ENTER)
    assert browser.texts("#flame-path button")[-1] == "aten::mm"
    assert name() == "aten::mm"
    browser.press(Keys.ESCAPE)
    assert browser.texts("#flame-path button")[-1] == "forward"
    browser.press(Keys.ESCAPE, Keys.ESCAPE)
    assert browser.texts("#flame-path button") == []


def test_frames_too_narrow_to_show_leave_a_mark(browser: Browser) -> None:
    browser.show(many_ops())
    whole = browser.find("#flame-graph").size["width"]
    shown = [number for number in range(60) if whole * (number + 1) / 6000 >= 1.5]
    assert len(_labels(browser, ".frame")) == len(shown) + 1
    (mark,) = browser.driver.find_elements(By.CSS_SELECTOR, ".narrow")
    left_out = sum(number + 1 for number in range(60) if number not in shown)
    assert mark.size["width"] == pytest.approx(whole * left_out / 6000, abs=1.5)


def test_the_chosen_step_is_marked_on_the_lanes(browser: Browser) -> None:
    browser.show(training_recording())
    assert browser.texts(".lane bdi") == ["python", "device 0: stream 7"]
    windows = browser.driver.find_elements(By.CSS_SELECTOR, ".window")
    assert [window.is_displayed() for window in windows] == [False, False]
    browser.click(".step:nth-child(2)")
    strip = browser.find(".strip").rect
    for window in windows:
        assert window.rect["x"] - strip["x"] == pytest.approx(strip["width"] * 300 / 700, abs=2)
        assert window.rect["width"] == pytest.approx(strip["width"] * 200 / 700, abs=2)


def test_a_step_narrows_the_operators(browser: Browser) -> None:
    browser.show(training_recording())
    browser.click(".step:nth-child(2)")
    assert browser.find("#operators-title").text == "Operators in step 1"
    panel = browser.find("#step-panel").text.replace("\n", " ")
    for said in ("Step 1", "lasted 200 µs", "2.0 times the median", "device busy 20.0 %"):
        assert said in panel
    assert browser.texts("#operators-table tbody tr:first-child td") == [
        "forward", "1", "130 µs", "30.0 µs", "+100 µs", "65.0 %",
    ]  # fmt: skip
    assert browser.texts("#work-table tbody td")[:5] == ["gemm", "1", "30.0 µs", "30.0 µs", "+0 ns"]
    browser.click("#step-panel button")
    assert browser.find("#operators-title").text == "Operators"


def test_steps_work_by_keyboard(browser: Browser) -> None:
    browser.show(training_recording())
    browser.run("document.querySelector('.step').focus()")
    browser.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER)
    assert browser.focused.get_attribute("aria-label") == "step 2, 100 µs"
    assert browser.focused.get_attribute("aria-selected") == "true"
    assert browser.find("#operators-title").text == "Operators in step 2"
    browser.press(Keys.ESCAPE)
    assert browser.find("#operators-title").text == "Operators"


def uneven_steps(count: int = 12, *, slow: int = 7) -> Recording:
    """A partial step of 100 s, then steps of 10 to 19 ms, to one of which a hostile op adds 47 ms."""
    builder = RecordingBuilder()
    track = builder.add_track("python")
    at = 0
    for number in range(count):
        length = 100_000 * MS if not number else (10 + number % 10) * MS
        flags = StepFlags.HAS_NUMBER | (StepFlags(0) if number else StepFlags.PARTIAL)
        extra = 47 * MS if number == slow else 0
        builder.add_step(at, at + length + extra, number, track=track, flags=flags)
        builder.add_event("aten::mm", at, at + length, track=track)
        if extra:
            builder.add_event(HOSTILE_NAMES[0], at + length, at + length + extra, track=track)
        at += length + extra
    return builder.finish()


def _heights(browser: Browser) -> list[float]:
    return [element.size["height"] for element in browser.driver.find_elements(By.CSS_SELECTOR, ".step i")]


def test_the_bars_have_a_scale_of_whole_steps(browser: Browser) -> None:
    browser.show(uneven_steps())
    assert browser.texts("#steps-axis span") == ["0", "20 ms", "40 ms", "60 ms", "80 ms"]
    heights = _heights(browser)
    whole = browser.find("#step-bars").size["height"]
    assert heights[0] == pytest.approx(whole, abs=1)  # cut off, and labelled so
    assert heights[7] == pytest.approx(whole * 64 / 80, abs=1)
    assert heights[9] == pytest.approx(whole * 19 / 80, abs=1)
    assert [text.split() for text in browser.texts(".step b")][:2] == [["0", "partial"], ["1"]]
    label = browser.find(".step").get_attribute("aria-label")
    assert label == "step 0, 100 s, partial: the recording began or ended inside it"
    assert "partial: the recording began or ended inside it" in browser.texts("#steps-legend li")
    assert "11 whole steps, 14.0 ms the median. 1 more not recorded whole" in browser.find("#steps-hint").text


def test_a_step_far_above_all_others_leaves_them_room(browser: Browser) -> None:
    browser.show(uneven_steps(400, slow=0))
    assert browser.texts("#steps-axis span")[-1] == "20 ms"
    browser.show(compiled_first())
    assert browser.texts("#steps-axis span")[-1] == "80 ms"
    assert _heights(browser)[1] == pytest.approx(browser.find("#step-bars").size["height"] / 8, abs=1)
    assert "taller than the scale" in browser.texts("#steps-legend li")


def test_of_a_step_of_which_events_are_missing_no_cause_is_said(browser: Browser) -> None:
    builder = RecordingBuilder()
    builder.add_track("python")
    for number in range(5):
        builder.add_step(number * 10 * MS, (number + 1) * 10 * MS, number, flags=StepFlags.HAS_NUMBER)
        if number < 4:
            builder.add_event("aten::mm", number * 10 * MS, (number * 10 + 8) * MS)
    builder.add_drops("byte_cap", 5108)
    browser.show(builder.finish())
    assert "3 whole steps, 10.0 ms the median. 2 more not recorded whole" in browser.find("#steps-hint").text
    assert "incomplete: events in it were dropped or cut off" in browser.texts("#steps-legend li")
    browser.click(".step:nth-child(5)")
    panel = browser.find("#step-panel").text
    assert "nothing is said of what took its time" in panel
    assert "ntraced" not in panel
    assert "difference" not in browser.find("#operators-table").text
    browser.click(".step:nth-child(1)")
    assert "untraced code" in browser.find("#step-panel").text


def test_of_the_only_step_it_says_what_it_waited_for(browser: Browser) -> None:
    builder = RecordingBuilder()
    builder.add_track("python")
    builder.add_step(0, 10 * MS, 0, flags=StepFlags.HAS_NUMBER)
    builder.add_event("aten::mm", 0, 8 * MS)
    browser.show(builder.finish())
    browser.click(".step")
    panel = browser.find("#step-panel").text
    assert "untraced code" in panel
    assert "2.00 ms" in panel
    assert "median" not in panel
    assert "differs" not in panel.lower()


def compiled_first() -> Recording:
    """20 steps of 10 ms, the first one of 30 s."""
    builder = RecordingBuilder()
    track = builder.add_track("python")
    at = 0
    for number in range(20):
        length = 10 * MS if number else 30_000 * MS
        builder.add_step(at, at + length, number, track=track, flags=StepFlags.HAS_NUMBER)
        builder.add_event("aten::mm", at, at + length, track=track)
        at += length
    return builder.finish()


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_one_click_leads_to_the_slowest_step_and_why(browser: Browser, size: tuple[int, int]) -> None:
    browser.show(uneven_steps(), size)
    first = browser.find("#slowest-steps li")
    assert first.text.startswith("Step 7 64.0 ms, 4.6 times the median · most in </script><img")
    assert first.text.endswith("+47.0 ms")
    browser.click("#slowest-steps a")
    assert browser.find("#step-panel h3").text == "Step 7"
    table = "#step-panel table[aria-label='Differs most on threads, in self time']"
    rows = [text.replace("\n", " ") for text in browser.texts(f"{table} tbody tr")]
    for said in ("</script><img src=x", "47.0 ms", "0 ns", "+47.0 ms", "1 (median 0)"):
        assert said in rows[0]
    assert "+3.00 ms" in rows[1]
    assert browser.run("return location.hash") == "#step-7"
    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    browser.click("#step-panel button")
    assert browser.run("return location.hash") == ""


def test_a_link_leads_to_a_step(browser: Browser) -> None:
    browser.show(uneven_steps(1200, slow=703))

    def follow(number: int) -> tuple[str, str]:
        browser.driver.execute_async_script(
            "const [hash, done] = arguments;"
            "addEventListener('hashchange', () => done(), { once: true }); location.hash = hash;",
            f"step-{number}",
        )
        return browser.find("#operators-title").text, browser.find("#step-note").text

    assert follow(703) == ("Operators in step 703", "")
    # Three share a bar, of which the slowest is shown.
    title, note = follow(603)
    assert title == "Operators in step 605"
    assert note == (
        "Step 603 shares a bar with others; this is the slowest of them, step 605. "
        "“report --step 603” shows it alone."
    )
    assert follow(1200) == ("Operators", "There is no step 1,200 in this recording.")
    browser.driver.get(f"{browser.path.as_uri()}#step-4")
    browser.driver.refresh()
    assert browser.find("#operators-title").text.startswith("Operators in step ")


def test_threads_and_devices_have_tables_of_their_own(browser: Browser) -> None:
    browser.show(training_recording())
    assert browser.texts("#operators h3") == ["On threads", "On devices"]
    assert "gemm" not in browser.texts("#operators-table td.name")
    assert browser.texts("#work-table tbody tr:first-child td") == [
        "gemm", "3", "90.0 µs", "30.0 µs", "30.0 µs", "60.0 %",
    ]  # fmt: skip
    browser.show(many_ops())
    titles = browser.driver.find_elements(By.CSS_SELECTOR, "#operators h3")
    assert [title.is_displayed() for title in titles] == [False, False]


def test_tab_reaches_every_part_once(browser: Browser) -> None:
    browser.show(training_recording())
    stops: list[str] = []
    for _ in range(40):
        browser.press(Keys.TAB)
        part = browser.run("return document.activeElement.closest('section')?.id ?? ''")
        if part and (not stops or stops[-1] != part):
            stops.append(part)
        if browser.run("return document.activeElement === document.body"):
            break
    assert stops == ["steps", "findings", "operators", "flame", "device"]


def test_devices_show_busy_time_kernels_and_bytes(browser: Browser) -> None:
    browser.show(training_recording())
    card = browser.find("#devices").text
    for said in (
        "Device 0 · NVIDIA H100",
        "idle 520 µs (81.3 %)",
        "kernels and copies at once 30.0 µs (4.7 %)",
    ):
        assert said in card
    assert browser.texts("#kernels-table td")[:3] == ["gemm", "3", "90.0 µs"]
    assert browser.texts("#copies-table td")[:4] == ["Memcpy HtoD", "3", "12.0 KiB", "60.0 µs"]


def test_hostile_names_are_text(browser: Browser) -> None:
    browser.show(hostile_recording())
    selector = "#operators-table td.name bdi"
    names = browser.run(
        f"return [...document.querySelectorAll('{selector}')].map((name) => name.textContent)"
    )
    assert set(names) == {shown(name.replace("\ud800", "\ufffd" * 3)) for name in HOSTILE_NAMES}
    assert browser.run("return document.querySelectorAll('img, main b, main i:not([class])').length") == 0
    assert browser.driver.title == "run.tprof · otel-torchprof report"
    assert "</script><i>2.13</i>" in browser.find("#lines").text


def test_a_long_name_unfolds(browser: Browser) -> None:
    browser.show(hostile_recording())
    name = browser.find("#operators-table .long")
    folded = name.size["height"]
    browser.click(name)
    assert name.get_attribute("aria-expanded") == "true"
    assert name.size["height"] > 2 * folded


@pytest.mark.parametrize("recording", [training_recording, hostile_recording, many_ops, Recording.empty])
def test_nothing_sticks_out_on_a_phone(browser: Browser, recording: Callable[[], Recording]) -> None:
    browser.show(recording(), PHONE)
    assert browser.run("return document.documentElement.scrollWidth") == PHONE[0]
    size = browser.run("return parseFloat(getComputedStyle(document.querySelector('#search')).fontSize)")
    assert size >= 16  # smaller ones make phones zoom in


def test_a_real_loop(browser: Browser) -> None:
    capture = Capture()
    capture.start()
    run_captured_steps(capture, 4, names=ODD_NAMES)
    browser.show(capture.stop())
    assert len(_labels(browser, ".step")) == 5
    browser.press("/", "aten::conv")
    assert "aten::convolution_backward" in browser.texts("#operators-table td.name")
    browser.click(".step:nth-child(3)")
    assert set(browser.texts("#operators-table td.calls")) == {"1"}


def test_memory_shows_the_peak_by_what_it_was_for(browser: Browser) -> None:
    browser.show(memory_recording())
    assert browser.texts("#memory-legend li:not([hidden])") == ["unknown"]
    assert (
        browser.find("#memory-peak").text.replace("\n", " ")
        == "peak 9.00 KiB at 2.00 µs unknown 9.00 KiB (100.0 %)"
    )
    assert browser.texts("#memory-tables h3") == [
        "At the peak, by operator", "At the peak, by stack", "Largest blocks at the peak",
    ]  # fmt: skip
    table = "#memory-tables table[aria-label='At the peak, by stack']"
    assert browser.texts(f"{table} td:last-child") == ["44.4 %", "44.4 %", "11.1 %"]
    assert browser.texts(f"{table} ol") == ["", "", ""]
    browser.click(f"{table} summary")
    assert browser.texts(f"{table} ol")[0].split("\n")[0] != ""


def test_memory_zooms_by_dragging_and_by_keyboard(browser: Browser) -> None:
    browser.show(memory_recording())
    chart = browser.find("#memory-chart")
    whole = (browser.find("#memory-from").text, browser.find("#memory-to").text)
    browser.run("document.querySelector('#memory-chart').scrollIntoView({block: 'center'})")
    width = chart.size["width"]
    ActionChains(browser.driver).move_to_element(chart).move_by_offset(
        -width // 4, 0
    ).click_and_hold().move_by_offset(width // 4, 0).release().perform()
    assert (browser.find("#memory-from").text, browser.find("#memory-to").text) != whole
    browser.click("#memory-whole")
    assert (browser.find("#memory-from").text, browser.find("#memory-to").text) == whole
    browser.press(Keys.HOME)
    assert browser.find("#memory-at").text == "At 0 ns: 4.00 KiB (unknown 4.00 KiB)"
    browser.press(Keys.END, Keys.ENTER)
    assert browser.find("#memory-whole").is_displayed()
    browser.press(Keys.ESCAPE)
    assert (browser.find("#memory-from").text, browser.find("#memory-to").text) == whole


def test_the_memory_timeline_is_a_page_of_its_own(browser: Browser) -> None:
    for size in (DESKTOP, PHONE):
        export(memory_recording(), browser.path, "memory-timeline")
        browser.open(size)
        assert browser.find("h1").text == "page.html"
        assert "peak of cuda:0" in browser.find("#figures").text
        assert browser.find("#memory").is_displayed()
        assert browser.run("return document.documentElement.scrollWidth") <= size[0]
        drawn = browser.run(
            "const chart = document.querySelector('#memory-chart'), context = chart.getContext('2d');"
            "return context.getImageData(0, 0, chart.width, chart.height).data.some((part) => part > 0);"
        )
        assert drawn


def test_it_follows_the_colours_of_the_system(browser: Browser) -> None:
    colours = []
    for scheme in ("light", "dark"):
        browser.show(training_recording(), scheme=scheme)
        colours.append(browser.run("return getComputedStyle(document.body).backgroundColor"))
    assert colours[0] != colours[1]


def test_the_tree_of_modules_opens_closes_and_is_searched(browser: Browser) -> None:
    browser.show(nested_modules(30, 2))
    assert "Modules" in browser.texts("#sections a")
    lines = "#modules-table tbody tr"
    # All 90 would make a long table: the layers are closed at first.
    assert len(browser.texts(lines)) == 31
    browser.click('#modules-table [data-module="1"]')
    assert len(browser.texts(lines)) == 33
    assert browser.focused.get_attribute("aria-expanded") == "true"
    browser.press(Keys.ENTER)
    assert len(browser.texts(lines)) == 31
    browser.find("#search").send_keys("layers.7.part1")
    assert [text.split()[0] for text in browser.texts("#modules-table td.name")] == [
        "Net",
        "layers.7",
        "layers.7.part1",
    ]
    assert browser.errors() == []
