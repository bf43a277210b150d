"""Tests that need an NVIDIA GPU: elsewhere they are skipped, as no machine gets one by installing it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@cache
def _why_not() -> str:
    """What this machine lacks, empty = nothing."""
    import torch

    if torch.version.cuda is None:
        return "this torch knows no CUDA"
    return "" if torch.cuda.is_available() else "there is no NVIDIA GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what is in this folder, and skips it where there is no GPU."""
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if reason := _why_not():
                item.add_marker(pytest.mark.skip(reason=reason))
