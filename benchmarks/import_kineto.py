"""Import of a Kineto trace against `json.load` of the same file: time, and memory at the peak.

The trace is made here, in the shape of a real one: 76,000 events and 35 MB.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.rows import Row, Target
from otel_torchprof.importers import load

_FRAME = "/home/user/lib/python3.10/site-packages/torch/nn/modules/module.py(10{}): _call"
_STACK = ";".join(_FRAME.format(n) for n in range(15))
_OPS = 23_600
_LAUNCHES = 9_000

# Peak resident memory of reading a file, in a process of its own, less what that process needs anyway. Not
# getrusage: it counts what the parent had before the exec.
_MEASURE_PEAK = """
import re, sys
from pathlib import Path
{imports}
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
before = peak()
{read}
print(peak() - before)
"""
_IMPORT = (
    "from otel_torchprof.importers import load, chrome, registry\nimport numpy",
    "kept = load(sys.argv[1])",
)
_JSON = ("import json", "kept = json.load(open(sys.argv[1]))")


def run(quick: bool) -> list[Row]:
    """Time and memory rows."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        path.write_text(json.dumps(_trace(scale=10 if quick else 1)))
        size_bytes = path.stat().st_size
        ours, anchor = _paired_seconds(path, repeats=3 if quick else 7)
        peak_bytes = _peak_bytes(path, *_IMPORT)
        json_peak_bytes = _peak_bytes(path, *_JSON)
    label = f"import Kineto JSON, {size_bytes / 1e6:.0f} MB"
    return [
        Row(label, ours, "s", "json.load", anchor, Target("at most", 0.5)),
        Row(
            f"{label}: peak memory",
            peak_bytes / 1e6,
            "MB",
            "the file",
            size_bytes / 1e6,
            Target("at most", 2.0),
        ),
        Row(f"{label}: peak memory", peak_bytes / 1e6, "MB", "json.load", json_peak_bytes / 1e6),
    ]


def _paired_seconds(path: Path, repeats: int) -> tuple[float, float]:
    """Medians of both, measured in turn so that they meet the same machine."""
    load(path)
    pairs = [(_seconds(lambda: load(path)), _seconds(lambda: _load_json(path))) for _ in range(repeats)]
    return statistics.median(ours for ours, _ in pairs), statistics.median(anchor for _, anchor in pairs)


def _load_json(path: Path) -> Any:
    with path.open() as file:
        return json.load(file)


def _seconds(read: Callable[[], Any]) -> float:
    gc.collect()
    start = time.perf_counter()
    kept = read()
    elapsed = time.perf_counter() - start
    del kept
    return elapsed


def _peak_bytes(path: Path, imports: str, read: str) -> int:
    script = _MEASURE_PEAK.format(imports=imports, read=read)
    done = subprocess.run(
        [sys.executable, "-c", script, os.fspath(path)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def _trace(scale: int) -> dict[str, Any]:
    events: list[dict[str, Any]] = []
    for n in range(_OPS // scale):
        arguments: dict[str, Any] = {
            "Device": 25738,
            "External id": n,
            "Trace name": "PyTorch Profiler",
            "Trace iteration": 0,
            "Input Dims": [[32, 64, 56 + n % 40, 56], [64, 64, 3, 3], []],
            "Input type": ["float", "float", ""],
        }
        if n % 3:
            arguments["Call stack"] = _STACK
        events.append(_event("X", f"aten::op_{n % 60}", "Operator", n * 45, dur=25, args=arguments))
        if n % 2:
            memory = {"Device Type": 1, "Device Id": 0, "Bytes": 512 * n}
            events.append(_event("i", "[memory]", "cpu_instant_event", n * 45 + 9, s="t", args=memory))
    for n in range(_LAUNCHES // scale):
        ids = {"correlation": n, "external id": n * 2}
        call = {"cbid": 211, **ids, "external ts": n}
        events.append(_event("X", "cudaLaunchKernel", "Runtime", n * 90 + 9, dur=7, args=call))
        kernel = {
            "queued": 0, "device": 0, "context": 1, "stream": 7, **ids, "registers per thread": 38,
            "shared memory": 0, "blocks per SM": 1.0625, "warps per SM": 8.5, "grid": [n % 99 + 1, 1, 1],
            "block": [256, 1, 1], "est. achieved occupancy %": 53,
        }  # fmt: skip
        name = f"void at::native::kernel_{n % 80}<float, at::native::CUDAFunctor<float>>(int, float*)"
        where = {"pid": 0, "tid": "stream 7"}
        events.append({**_event("X", name, "Kernel", n * 90 + 40, dur=30, args=kernel), **where})
        events.append(_event("s", "launch", "async", n * 90 + 9, id=n))
        end = _event("f", "launch", "async", n * 90 + 40, id=n, bp="e")
        events.append({**end, **where})
    return {"schemaVersion": 1, "traceEvents": events}


def _event(phase: str, name: str, category: str, ts: int, **fields: Any) -> dict[str, Any]:
    start = 1_623_142_623_460_016
    return {
        "ph": phase, "cat": category, "name": name, "pid": 25738, "tid": "25738", "ts": start + ts, **fields,
    }  # fmt: skip
