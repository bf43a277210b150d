"""The import rules of docs/architecture.md, read off the sources: one way, torch behind the recorder."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "otel_torchprof"
NATIVE = ROOT / "native"
MAX_LINES = 500

# The ground: modules that know only each other and that every layer may know.
LEAVES = {
    "environment_variables",
    "errors",
    "own_threads",
    "package",
    "run_identity",
    "semconv",
    "semconv_batch",
    "semconv_metrics",
    "semconv_spans",
    "version",
}

# What each layer may know besides the leaves. A layer that is not listed (cli, instrumentor, profiler, ...)
# stands on top of the house and may know everything.
MAY_KNOW = {
    "_native": set[str](),
    "recording": {"_native"},
    "recorder": {"_native", "recording"},
    "importers": {"_native", "recording"},
    "exporters": {"_native", "recording", "analysis"},
    "exporters.otlp": {"_native", "recording", "exporters", "spans"},
    "spans": {"_native", "recording"},
    "metrics": {"_native", "recording", "analysis"},
    "analysis": {"_native", "recording"},
    "telemetry": {"_native", "recording", "spans", "metrics"},
}
MAY_IMPORT_TORCH = {"recorder", "profiler", "profiling", "autograd_profiler"}
MAY_IMPORT_OPENTELEMETRY = {"telemetry", "instrumentor"}
MAY_IMPORT_PROMETHEUS = {"telemetry"}


@dataclass(frozen=True)
class Import:
    """One module a file imports, wherever in the file it does so."""

    module: str
    line: int
    at_load: bool


def imports_of(source: str, module: str, is_package: bool) -> Iterator[Import]:
    """Every import of `module`: absolute, relative, inside functions, and `import_module("name")`."""
    tree = ast.parse(source)
    at_load = {id(node) for node in _nodes_run_at_load(tree)}
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            names = [f"{origin}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and _callee(node) in {"import_module", "__import__"}:
            names = [
                arg.value
                for arg in node.args[:1]
                if isinstance(arg, ast.Constant) and isinstance(arg.value, str)
            ]
        for name in names:
            yield Import(name, getattr(node, "lineno", 0), id(node) in at_load)


def _nodes_run_at_load(tree: ast.Module) -> Iterator[ast.AST]:
    """Nodes outside function bodies and outside `if TYPE_CHECKING:`."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))


def _callee(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def layer_of(module: str) -> str:
    """The layer of a module name that starts with the package's: its first part, or a listed finer one."""
    parts = module.split(".")[1:]
    fine = ".".join(parts[:2])
    return fine if fine in MAY_KNOW else ".".join(parts[:1])


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """What `module` imports against the rules, one line each."""
    own = layer_of(module)
    top = own.split(".", maxsplit=1)[0]
    found: list[str] = []
    for imported in imports_of(source, module, is_package):
        where = f"{module}:{imported.line} imports {imported.module}"
        root = imported.module.split(".")[0]
        if root == "torch" and top not in MAY_IMPORT_TORCH:
            found.append(f"{where}: torch stays behind {', '.join(sorted(MAY_IMPORT_TORCH))}")
        elif root == "torch" and imported.at_load:
            found.append(f"{where} when it is loaded: torch is imported lazily")
        elif root == "opentelemetry" and top not in MAY_IMPORT_OPENTELEMETRY:
            found.append(f"{where}: only {', '.join(sorted(MAY_IMPORT_OPENTELEMETRY))} may")
        elif root == "prometheus_client" and top not in MAY_IMPORT_PROMETHEUS:
            found.append(f"{where}: only {', '.join(sorted(MAY_IMPORT_PROMETHEUS))} may")
        elif root == "otel_torchprof":
            other = layer_of(imported.module)
            if own in LEAVES and other not in LEAVES:
                found.append(f"{where}: {own} may know only {', '.join(sorted(LEAVES))}")
            elif own in MAY_KNOW and other not in MAY_KNOW[own] | LEAVES | {own, ""}:
                found.append(f"{where}: {own} may know {', '.join(sorted(MAY_KNOW[own])) or 'nothing'}")
    return found


def source_files() -> list[Path]:
    files = sorted([*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")])
    assert files, f"no sources under {PACKAGE}"
    return files


def module_name(path: Path) -> tuple[str, bool]:
    parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    is_package = parts[-1] == "__init__"
    return ".".join(parts[:-1] if is_package else parts), is_package


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_run_one_way(path: Path) -> None:
    module, is_package = module_name(path)
    assert violations(path.read_text(encoding="utf-8"), module, is_package) == []


@pytest.mark.parametrize(
    ("module", "source", "said"),
    [
        ("otel_torchprof.cli", "import torch", "torch stays behind"),
        ("otel_torchprof.cli", "def f():\n    from torch.nn import Module", "torch stays behind"),
        ("otel_torchprof.recorder.bridge", "import torch", "lazily"),
        ("otel_torchprof.recorder.bridge", "class A:\n    from torch import nn", "lazily"),
        (
            "otel_torchprof.recording.events",
            "from opentelemetry import trace",
            "only instrumentor, telemetry",
        ),
        (
            "otel_torchprof.analysis.averages",
            "def f():\n    from ..recorder import capture",
            "analysis may know",
        ),
        ("otel_torchprof.exporters.chrome", "from otel_torchprof import spans", "exporters may know"),
        ("otel_torchprof.metrics.live", "import prometheus_client", "only telemetry may"),
        (
            "otel_torchprof.spans.plan",
            "from otel_torchprof.analysis.averages import averages",
            "spans may know",
        ),
        ("otel_torchprof.errors", "from .recording import Recording", "may know only"),
        ("otel_torchprof.doctor", "import importlib\nimportlib.import_module('torch')", "torch stays behind"),
    ],
)
def test_a_crossed_layer_is_found(module: str, source: str, said: str) -> None:
    assert [said in line for line in violations(source, module)] == [True]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("otel_torchprof.recorder.bridge", "def f():\n    import torch"),
        (
            "otel_torchprof.recorder.bridge",
            "import typing\nif typing.TYPE_CHECKING:\n    import torch",
        ),
        ("otel_torchprof.exporters.otlp", "from otel_torchprof.spans import plan_spans"),
        ("otel_torchprof.telemetry.sending", "from opentelemetry import context\nfrom ..spans import encode"),
        ("otel_torchprof.analysis.averages", "from ..recording import Recording\nfrom .tree import walk"),
        ("otel_torchprof.instrumentor", "from .recorder import capture\nfrom opentelemetry import trace"),
    ],
)
def test_what_the_rules_allow_is_allowed(module: str, source: str) -> None:
    assert violations(source, module) == []


def native_files(*folders: str) -> list[Path]:
    return [
        path
        for folder in folders
        for path in sorted((NATIVE / folder).rglob("*"))
        if path.suffix in {".h", ".cpp"}
    ]


# The bridge's plain C contract is the one header of native/torch that the core includes.
TORCH_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]((?:ATen|c10|torch)/(?!bridge_abi\.h)[^>"]+)', re.M)
PYTHON_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]((?:Python\.h|nanobind/)[^>"]*)', re.M)


def includes(pattern: re.Pattern[str], *folders: str) -> dict[str, list[str]]:
    """The includes that match, by file, in folders of the native sources."""
    files = native_files(*folders)
    assert files, f"no sources in {folders}"
    found = {
        str(path.relative_to(NATIVE)): pattern.findall(path.read_text(encoding="utf-8")) for path in files
    }
    return {path: headers for path, headers in found.items() if headers}


def test_only_the_bindings_and_what_records_python_know_python() -> None:
    found = includes(PYTHON_INCLUDE, "core", "spans", "encode", "sources", "torch", "tests")
    assert {str(Path(path).parent) for path in found} == {
        "sources/modules",
        "sources/op_ranges",
        "sources/python",
        "sources/python_frames",
        "sources/user_scopes",
    }


def test_only_the_bridge_knows_torch() -> None:
    assert includes(TORCH_INCLUDE, "core", "spans", "encode", "sources", "bindings", "tests") == {}


@pytest.mark.parametrize(
    ("pattern", "line", "header"),
    [
        (PYTHON_INCLUDE, '#include "Python.h"', "Python.h"),
        (PYTHON_INCLUDE, "#include <nanobind/nanobind.h>", "nanobind/nanobind.h"),
        (TORCH_INCLUDE, "#include <ATen/record_function.h>", "ATen/record_function.h"),
        (TORCH_INCLUDE, "  # include <c10/core/Allocator.h>", "c10/core/Allocator.h"),
        (TORCH_INCLUDE, '#include "torch/extension.h"', "torch/extension.h"),
    ],
)
def test_a_foreign_include_is_found(pattern: re.Pattern[str], line: str, header: str) -> None:
    assert pattern.findall(f"// a comment\n{line}\n") == [header]


def code_files() -> list[Path]:
    python = [
        path
        for folder in ("src", "tests", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*.py")
    ]
    return sorted([*python, *native_files(".")])


def test_no_file_holds_more_than_one_concept() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in code_files()
        if (lines := path.read_text(encoding="utf-8").count("\n")) > MAX_LINES
    }
    assert long == {}


def test_nothing_is_called_utils_or_helpers() -> None:
    vague = re.compile(r"(^|_)(utils?|helpers?|misc|common)(_|$)")
    names = {
        path for path in [*code_files(), *(path.parent for path in code_files())] if vague.search(path.stem)
    }
    assert {str(path.relative_to(ROOT)) for path in names} == set()
