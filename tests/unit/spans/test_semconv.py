"""One list of attribute names: native, documented, published."""

from __future__ import annotations

from pathlib import Path

from otel_torchprof import semconv
from otel_torchprof._native import core

ROOT = Path(__file__).parents[3]


def test_documented_and_native_names_are_the_same() -> None:
    names = [attribute.name for attribute in semconv.SPAN_ATTRIBUTES]
    assert names == core.span_attribute_names()
    assert len(set(names)) == len(names)


def test_each_constant_is_documented() -> None:
    constants = {
        value
        for name, value in vars(semconv).items()
        if name.isupper() and not name.startswith("_") and isinstance(value, str)
    }
    tables = (semconv.SPAN_ATTRIBUTES, semconv.PATTERN_ATTRIBUTES)
    documented = {attribute.name for table in tables for attribute in table}
    assert constants - {semconv.SCHEMA_URL, semconv.PATTERN_EVENT} == documented


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "semantic-conventions.md").read_text("utf-8")
    assert page == semconv.render_page(), (
        "run: python -m otel_torchprof.semconv > docs/semantic-conventions.md"
    )
