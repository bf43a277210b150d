"""What all tests share: a clean environment, and property tests that no slow machine can fail."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

IN_CI = os.environ.get("CI", "").lower() in {"true", "1"}

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
def require_tool() -> Callable[[str, str], str]:
    """Path of a program; where it is missing the test is skipped, in CI it fails."""

    def find(name: str, way_out: str) -> str:
        if path := shutil.which(name):
            return path
        said = f"{name} not found: {way_out}"
        return pytest.fail(said) if IN_CI else pytest.skip(said)

    return find
