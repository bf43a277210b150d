"""Programs and packages that some tests need: where they are missing a test is skipped, in CI it fails."""

from __future__ import annotations

import importlib
import os
from typing import Any, NoReturn

import pytest

IN_CI = os.environ.get("CI", "").lower() in {"true", "1"}


def skip_or_fail(reason: str) -> NoReturn:
    """For a test whose tools this machine lacks: skips it with the reason, in CI fails it."""
    if IN_CI:
        pytest.fail(reason)
    pytest.skip(reason)


def require_package(name: str) -> Any:
    """The module `name`; where it is missing, skips the test that asks, in CI raises ImportError."""
    if IN_CI:
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed: make setup installs it")
