"""The documents tell the truth: their links lead somewhere, and what the README says to type works."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.required_tools import skip_or_fail

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^(<!-- tested -->\n)?```(\w+)\n(.*?)^```$", re.M | re.S)


def documents() -> list[Path]:
    nested = [
        path for folder in ("docs", "examples", "collector-config") for path in (ROOT / folder).rglob("*.md")
    ]
    return sorted([*ROOT.glob("*.md"), *nested])


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    targets = [target for target in LINK.findall(document.read_text("utf-8")) if "://" not in target]
    assert [target for target in targets if not (document.parent / target).exists()] == []


def test_the_package_is_installed_from_where_it_is_in_every_document() -> None:
    """It is in no registry."""
    lines = {
        line.strip(): str(document.relative_to(ROOT))
        for document in documents()
        for line in document.read_text("utf-8").splitlines()
        if "pip install" in line and "otel-torchprof" in line
    }
    assert {"README.md", "examples/zero-code/README.md"} <= set(lines.values())
    place = re.compile(r"pip install '?path/to/otel-torchprof(\[[a-z,]+\]')?( |`|$)")
    assert {line: document for line, document in lines.items() if not place.search(line)} == {}


def test_every_document_is_in_the_readme() -> None:
    linked = {(ROOT / target).resolve() for target in LINK.findall((ROOT / "README.md").read_text("utf-8"))}
    assert set((ROOT / "docs").glob("*.md")) - linked == set()


def test_the_document_of_the_page_has_each_of_its_parts() -> None:
    page = ROOT / "src/otel_torchprof/exporters/html_report/page"
    parts = re.findall(r"<h2[^>]*>([^<]+)</h2>", "".join(path.read_text() for path in page.glob("*.html")))
    told = re.findall(r"^- \*\*(.+?)\*\*", (ROOT / "docs" / "report.md").read_text("utf-8"), re.M)
    assert {"Findings", "Steps", "Memory"} <= set(parts) <= set(told)


@dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    language: str
    text: str
    tested: bool


def blocks(document: Path) -> Iterator[Block]:
    for marker, language, text in BLOCK.findall(document.read_text("utf-8")):
        yield Block(language, text, bool(marker))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that looks like the checkout, for commands to leave their files in."""
    folder = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        if path.name not in {".git", ".venv", "build", "out"}:
            (folder / path.name).symlink_to(path)
    (folder / ".venv").symlink_to(sys.prefix)
    (ROOT / "out").mkdir(exist_ok=True)
    (folder / "out").symlink_to(ROOT / "out")
    return folder


README_BLOCKS = [block for block in blocks(ROOT / "README.md") if block.tested]


def test_the_readme_has_something_to_type() -> None:
    assert {block.language for block in README_BLOCKS} == {"bash", "python"}


# In the order of the page, in one folder: later commands read what earlier ones wrote.
@pytest.mark.parametrize("block", README_BLOCKS, ids=lambda block: block.text.splitlines()[0])
def test_what_the_readme_says_to_type_works(block: Block, checkout: Path) -> None:
    uses_make = "make " in block.text
    if uses_make and subprocess.run(["make", "--question", "setup"], cwd=ROOT, check=False).returncode != 0:
        skip_or_fail("the environment is not up to date, and no test installs into it: run make setup")
    command = {"bash": ["bash", "-euo", "pipefail", "-c"], "python": [sys.executable, "-c"]}[block.language]
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "MAKE"))}
    environ["PATH"] = f"{Path(sys.prefix) / 'bin'}:{environ['PATH']}"
    done = subprocess.run(
        [*command, block.text],
        cwd=ROOT if uses_make else checkout,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr if done.returncode else "") == (0, "")
    assert done.stdout or ">" in block.text
