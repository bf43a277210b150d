"""What all tests share: a clean environment, and property tests that no slow machine can fail."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

from tests.support.required_tools import IN_CI

settings.register_profile(
    "project",
    deadline=None,  # a measured time never fails a test
    derandomize=IN_CI,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see the defaults, whatever OpenTelemetry settings the shell that runs them has."""
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


@pytest.fixture
def skip_or_fail() -> Callable[[str], None]:
    """For a test whose tools this machine lacks: skips it with the reason, in CI fails it."""

    def end(reason: str) -> None:
        (pytest.fail if IN_CI else pytest.skip)(reason)

    return end
