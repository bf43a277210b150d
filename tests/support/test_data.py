"""Traces that other people recorded. They are not part of the project and are not needed to test it.

`OTEL_TORCHPROF_TEST_DATA` names their folder, else `shared/data` beside the checkout is taken.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(
    os.environ.get("OTEL_TORCHPROF_TEST_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data"
)
KINETO = DATA / "kineto"

needs_data = pytest.mark.skipif(
    not KINETO.is_dir(), reason=f"no traces in {DATA}: set OTEL_TORCHPROF_TEST_DATA to a folder of them"
)
