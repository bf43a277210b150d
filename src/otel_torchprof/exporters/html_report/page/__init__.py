"""Puts the page together: one file that needs no other and asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from importlib import resources
from typing import Any

# In order: what comes later uses what came before.
_SCRIPTS = (
    "format.js", "head.js", "table.js", "operators.js", "steps.js", "step_details.js", "modules.js",
    "flame.js", "device.js", "findings.js", "memory.js", "counters.js", "main.js",
)  # fmt: skip
_PLACE = re.compile(r"\{\{(\w+)\}\}")


def make_page(data: Mapping[str, Any]) -> bytes:
    """The page as UTF-8. `data` stands in it as JSON, never as markup or script."""
    return _assemble("otel-torchprof report", "page.html", _SCRIPTS, data)


def make_memory_page(data: Mapping[str, Any]) -> bytes:
    """A page of the memory part alone; `data` needs `title`, `facts` and `memory`."""
    scripts = ("format.js", "head.js", "memory.js", "memory_main.js")
    return _assemble("otel-torchprof memory timeline", "memory_page.html", scripts, data)


def _assemble(title: str, body: str, scripts: tuple[str, ...], data: Mapping[str, Any]) -> bytes:
    style = _source("page.css") + _source("memory.css")
    script = '"use strict";\n' + "\n".join(_source(name) for name in scripts)
    parts = {
        # Whatever the data says, nothing but this script and this style runs, and nothing is fetched.
        "policy": f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'",
        "title": title,
        "style": style,
        "body": _fill(body, {"memory": _source("memory.html")}),
        "script": script,
        "data": script_safe_json(data),
    }
    return _fill("shell.html", parts).encode()


def _fill(name: str, parts: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: parts[place[1]], _source(name))


def script_safe_json(data: Mapping[str, Any]) -> str:
    """JSON in ASCII without `<`, `>` and `&`, so that it cannot end the element it stands in."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _source(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
