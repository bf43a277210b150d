"""Programs and packages that some tests need: where they are missing a test is skipped, in CI it fails."""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest

IN_CI = os.environ.get("CI", "").lower() in {"true", "1"}


def require_package(name: str) -> Any:
    """The module `name`; where it is missing, skips the test that asks, in CI raises ImportError."""
    if IN_CI:
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed: make setup installs it")
