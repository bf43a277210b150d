"""The page that compares ours with torch's profiler names everything, and says no more than is so."""

from __future__ import annotations

import pytest
import torch

from tests.support import torch_compatibility

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the page is about torch 2.13"
)


def test_nothing_is_missing_without_a_word() -> None:
    assert torch_compatibility.unexplained() == []


def test_no_note_is_about_what_is_not_so() -> None:
    assert torch_compatibility.stale_notes() == []


def test_the_page_is_up_to_date() -> None:
    page = torch_compatibility.page()
    assert torch_compatibility.PAGE.read_text(encoding="utf-8") == page, (
        "write it anew: python -m tests.support.torch_compatibility"
    )
