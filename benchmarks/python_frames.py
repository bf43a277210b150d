"""What watching adds to a call, in Python that does little else: ours, an empty hook, cProfile, VizTracer."""

from __future__ import annotations

import contextlib
import cProfile
import ctypes
import os
import subprocess
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median

from benchmarks.pairing import elapsed_ns
from benchmarks.rows import Row, Target
from otel_torchprof._native import core
from otel_torchprof.recorder.bridge_build import find_compiler
from otel_torchprof.recorder.sources.python_frames import PythonFrames
from otel_torchprof.recorder.sources.source import SourceTarget

_SOURCE = Path(__file__).parent / "native" / "empty_profile_hook.cpp"
_DEPTH = 18
_CAP_BYTES = 1 << 30

Watcher = Callable[[], AbstractContextManager[object]]


def run(quick: bool) -> list[Row]:
    """Measures the row "Python calls" of the table; needs a C++ compiler for the anchor."""
    rounds = 5 if quick else 25
    watchers: dict[str, Watcher] = {"ours": _ours, "cProfile": cProfile.Profile}
    why_no_viztracer = _add_viztracer(watchers)
    with _empty_hook() as empty_hook:
        watchers["empty hook"] = empty_hook
        added = _added_ns(watchers, rounds)
    ours = added["ours"]
    rows = [
        Row("Python calls", ours, "ns/call", "cProfile", added["cProfile"], Target("at most", 0.85)),
        Row("Python calls", ours, "ns/call", "empty hook", added["empty hook"]),
    ]
    if why_no_viztracer:
        return [*rows, Row(f"Python calls (no VizTracer: {why_no_viztracer})", ours, "ns/call")]
    return [*rows, Row("Python calls", ours, "ns/call", "VizTracer", added["VizTracer"])]


def _work() -> int:
    """Calls of Python functions, and of as many C functions."""

    def climb(n: int) -> int:
        return 1 if n < 2 else climb(n - 1) + climb(n - 2) + abs(n)

    return climb(_DEPTH)


def _calls() -> int:
    class Counter:
        calls = 0

        def __call__(self, _frame: object, event: str, _argument: object) -> None:
            self.calls += event in ("call", "c_call")

    import sys

    counter = Counter()
    sys.setprofile(counter)
    _work()
    sys.setprofile(None)
    return counter.calls


def _added_ns(watchers: dict[str, Watcher], rounds: int) -> dict[str, float]:
    """Nanoseconds that each watcher adds to a call: all of them in every round, beside the bare work."""
    calls = _calls()
    added: dict[str, list[float]] = {name: [] for name in watchers}
    for _round in range(rounds + 1):
        bare_ns = elapsed_ns(_work)
        for name, watcher in watchers.items():
            with watcher():
                _work()  # names are known, memory is there
                watched_ns = elapsed_ns(_work)
            added[name].append((watched_ns - bare_ns) / calls)
    return {name: median(figures[1:]) for name, figures in added.items()}


@contextlib.contextmanager
def _ours() -> Iterator[None]:
    capture, source = core.Capture(None, _CAP_BYTES), PythonFrames()
    source.start(SourceTarget(capture, capture.start(), None))  # type: ignore[arg-type]
    try:
        yield
    finally:
        source.stop()
        capture.stop()


def _add_viztracer(watchers: dict[str, Watcher]) -> str:
    """Returns why it is not measured, empty when it is."""
    try:
        from viztracer import VizTracer  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        return str(error)

    @contextlib.contextmanager
    def traced() -> Iterator[None]:
        tracer = VizTracer(tracer_entries=10_000_000, verbose=0)
        tracer.start()
        try:
            yield
        finally:
            tracer.stop()
            tracer.clear()

    watchers["VizTracer"] = traced
    return ""


@contextlib.contextmanager
def _empty_hook() -> Iterator[Watcher]:
    """Compiles and loads the empty hook, and yields what switches it on and off."""
    compiler = find_compiler(os.environ)
    if compiler is None:
        raise RuntimeError("no C++ compiler for the empty hook")
    with tempfile.TemporaryDirectory() as scratch:
        library_path = Path(scratch) / "empty_profile_hook.so"
        include = sysconfig.get_paths()["include"]
        options = ["-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-isystem", include]
        subprocess.run([*compiler, *options, str(_SOURCE), "-o", str(library_path)], check=True)
        library = ctypes.PyDLL(str(library_path))

    @contextlib.contextmanager
    def enabled() -> Iterator[None]:
        library.empty_profile_hook_enable()
        try:
            yield
        finally:
            library.empty_profile_hook_disable()

    yield enabled
