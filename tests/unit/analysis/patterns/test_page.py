"""docs/patterns.md says what the code does."""

from __future__ import annotations

from pathlib import Path

from otel_torchprof.analysis.patterns.page import render_page

PAGE = Path(__file__).parents[4] / "docs" / "patterns.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text("utf-8") == render_page(), (
        "run: python -m otel_torchprof.analysis.patterns.page > docs/patterns.md"
    )
