"""What all tests share: a clean environment, and property tests that no slow machine can fail."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from tests.support.required_tools import IN_CI

# Their checks say what they found, as those in tests do.
pytest.register_assert_rewrite("tests.support.device_structure", "tests.support.recorded_programs")

settings.register_profile(
    "project",
    deadline=None,  # a measured time never fails a test
    derandomize=IN_CI,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("project")


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests see the defaults, whatever OpenTelemetry settings the shell that runs them has.

    Only metrics go nowhere by themselves: each end of a program would wait for a collector.
    """
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "none")
