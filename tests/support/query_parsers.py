"""PromQL and TraceQL as the parsers of Prometheus's and Grafana's editors read them, in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.support.required_tools import skip_or_fail

_FOLDER = Path(__file__).parents[1] / "query_parsers"
_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Selector:
    """One selector of series: the metric and the labels that it is narrowed by."""

    name: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class ParsedQuery:
    """What a parser found: where the text is wrong, and which names it uses."""

    text: str
    errors: tuple[str, ...]
    selectors: tuple[Selector, ...]
    grouping: tuple[str, ...]
    attributes: tuple[str, ...]


def parse(language: Literal["promql", "traceql"], texts: Sequence[str]) -> list[ParsedQuery]:
    """Parse all of `texts`; skips the test where Node or the parsers are missing, in CI fails it."""
    node = shutil.which("node") or shutil.which("nodejs")
    if node is None or not (_FOLDER / "node_modules").is_dir():
        skip_or_fail("no parsers of queries: install Node with npm, then run make setup")
    asked = json.dumps([{"language": language, "text": text} for text in texts])
    answer = subprocess.run(
        [node, "parse.mjs"],
        cwd=_FOLDER,
        input=asked,
        capture_output=True,
        text=True,
        check=True,
        timeout=_TIMEOUT_S,
    )
    return [_parsed(text, found) for text, found in zip(texts, json.loads(answer.stdout), strict=True)]


def _parsed(text: str, found: dict[str, Any]) -> ParsedQuery:
    return ParsedQuery(
        text,
        tuple(found["errors"]),
        tuple(Selector(item["name"], tuple(item["labels"])) for item in found["selectors"]),
        tuple(found["grouping"]),
        tuple(found["attributes"]),
    )
