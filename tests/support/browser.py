"""Chromium without a screen, for tests of pages: fixtures that tests/integration/conftest.py hands on."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.common.exceptions import NoSuchDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from otel_torchprof.exporters.html_report import write_report
from otel_torchprof.recording import Recording
from tests.support.required_tools import skip_or_fail

# By the names that distributions and Google give them.
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
DRIVERS = ("chromedriver", "chromium.chromedriver", "/usr/lib/chromium-browser/chromedriver")
DESKTOP, PHONE = (1280, 900), (390, 844)
_ARGUMENTS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """A page in Chromium, and what Chromium had to say about it."""

    def __init__(self, driver: webdriver.Chrome, folder: Path) -> None:
        self.driver = driver
        self._folder = folder

    def show(
        self, recording: Recording, size: tuple[int, int] = DESKTOP, scheme: str = "light", **problems: int
    ) -> None:
        write_report(recording, self.path, title="run.tprof", problems=problems)
        self.open(size, scheme)

    @property
    def path(self) -> Path:
        return self._folder / "page.html"

    def open(self, size: tuple[int, int] = DESKTOP, scheme: str = "light") -> None:
        """Loads the page that lies at `path`."""
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == PHONE}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        # Without motion a click never meets a page that still scrolls.
        media = {"prefers-color-scheme": scheme, "prefers-reduced-motion": "reduce"}
        features = [{"name": name, "value": value} for name, value in media.items()]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        self.driver.get(self.path.as_uri())
        # What is sized by the layout is drawn again after the first one; elements found before that are gone.
        self.driver.execute_async_script(
            "const done = arguments[0], next = requestAnimationFrame; next(() => next(() => next(done)));"
        )

    def find(self, selector: str) -> WebElement:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.driver.find_elements(By.CSS_SELECTOR, selector)]

    def frame(self, name: str) -> WebElement:
        return self.find(f'.frame[aria-label^="{name},"]')

    def click(self, target: str | WebElement) -> None:
        element = self.find(target) if isinstance(target, str) else target
        self.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def press(self, *keys: str) -> None:
        ActionChains(self.driver).send_keys(*keys).perform()

    @property
    def focused(self) -> WebElement:
        return self.driver.switch_to.active_element

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]

    def requests(self) -> list[str]:
        """The URLs that the page asked for, its own among them; not those of Chromium's start page."""
        entries = self.driver.get_log("performance")  # type: ignore[no-untyped-call]
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            message["params"]["request"]["url"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
            and message["params"]["documentURL"].startswith("file:")
        ]


def first_installed(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome | None]:
    found = first_installed(BROWSERS)
    if found is None:
        yield None
        return
    options = webdriver.ChromeOptions()
    options.binary_location = found
    for argument in (*_ARGUMENTS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        # Without a path selenium looks for a driver that fits the browser itself.
        running = webdriver.Chrome(options=options, service=Service(first_installed(DRIVERS)))
    except NoSuchDriverException:
        yield None
        return
    yield running
    running.quit()


@pytest.fixture
def browser(driver: webdriver.Chrome | None, tmp_path: Path) -> Iterator[Browser]:
    if driver is None:
        skip_or_fail(f"no browser ({', '.join(BROWSERS)}) with its chromedriver is installed")
    browser = Browser(driver, tmp_path)
    browser.requests()
    yield browser
    assert browser.errors() == []
    assert {url.rpartition("/")[2].partition("#")[0] for url in browser.requests()} == {"page.html"}
