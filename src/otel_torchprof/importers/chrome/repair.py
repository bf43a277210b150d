"""Mends the text of one event that a strict parser refuses, and says what was wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import msgspec

_BAD_ESCAPE = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)", re.DOTALL)
# A quote that neither begins nor ends a string: something stands on both sides of it.
_INNER_QUOTE = re.compile(r'(?<![\\\[{,:\s])"(?!\s*[,:}\]])')
_STRING_OR_FAULT = re.compile(
    r'(?P<string>"(?:[^"\\]|\\.)*")|(?P<comma>,)(?=\s*[}\]])'
    r"|(?P<constant>[-+]?\b(?:nan|inf(?:inity)?)\b)",
    re.DOTALL | re.IGNORECASE,
)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_EVENT_BYTES = 16 << 20

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def repair_event(text: bytes) -> tuple[bytes | None, list[str]]:
    """Sound JSON for the text of an event, or None where nothing helps; and the names of what was wrong."""
    if len(text) > _MAX_EVENT_BYTES:
        return None, ["event_too_large"]
    problems: list[str] = []
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError:
        problems.append("invalid_utf8")
        decoded = text.decode("utf-8", "replace")
    for attempt, problem in _attempts(decoded):
        try:
            value = json.loads(attempt, strict=False, parse_float=Decimal, parse_constant=lambda _name: None)
        except RecursionError:
            return None, [*problems, "event_nested_too_deeply"]
        except (ValueError, ArithmeticError):
            continue
        if not isinstance(value, dict):
            return None, [*problems, "event_is_no_object"]
        if problem:
            problems.append(problem)
        elif not problems and not _SURROGATE.search(json.dumps(value, ensure_ascii=False, default=str)):
            problems.append(_milder_fault(decoded))
        return _encoded(value, problems), problems
    return None, [*problems, "malformed_event"]


def _attempts(text: str) -> Iterator[tuple[str, str]]:
    yield text, ""
    escaped = _ESCAPE.sub(_with_known_escape, text)
    yield escaped, "bad_escape"
    tidied, found = _without_faults(escaped)
    yield tidied, found
    yield _INNER_QUOTE.sub(r"\"", tidied), "unescaped_quote"


def _with_known_escape(escape: re.Match[str]) -> str:
    """The escape, its backslash doubled where JSON does not know it."""
    return "\\" + escape[0] if _BAD_ESCAPE.match(escape[0]) else escape[0]


def _without_faults(text: str) -> tuple[str, str]:
    """Drops trailing commas and makes NaN and infinities null, outside strings."""
    found: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match["string"]:
            return match["string"]
        found.append("trailing_comma" if match["comma"] else "not_a_number")
        return "" if match["comma"] else "null"

    tidied = _STRING_OR_FAULT.sub(replace, text)
    return tidied, found[0] if found else "malformed_event"


def _milder_fault(text: str) -> str:
    """What a strict parser refused and Python's did not."""
    without_strings = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text, flags=re.DOTALL)
    return "not_a_number" if re.search(r"NaN|Infinity", without_strings) else "control_character"


def _encoded(value: dict[str, Any], problems: list[str]) -> bytes | None:
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, msgspec.MsgspecError, RecursionError, OverflowError):
        pass
    problems.append("lone_surrogate")
    try:
        plain = json.dumps(value, ensure_ascii=False, default=str)
        return _SURROGATE.sub("\ufffd", plain).encode("utf-8")
    except (ValueError, RecursionError):
        return None
