"""What tests of several pages share."""

from tests.support.browser import browser, driver

__all__ = ["browser", "driver"]
