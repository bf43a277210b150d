"""Small programs for a GPU, each recorded in a process of its own, by us or by torch's own profiler.

python -m tests.gpu.programs matmul ours run.tprof
python -m tests.gpu.programs matmul torch run.json
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from otel_torchprof.importers import load
from otel_torchprof.recording import Recording

ROOT = Path(__file__).parents[2]
# CUDA's own start and the compilation of the bridge are in it.
TIMEOUT_S = 120


def matmul() -> Callable[[], None]:
    """Ten products of two sizes."""
    import torch

    pairs = [
        (torch.randn(size, size, device="cuda"), torch.randn(size, size, device="cuda"))
        for size in (256, 1024)
    ]

    def run() -> None:
        for _ in range(5):
            for left, right in pairs:
                torch.relu(left @ right)

    return run


def training() -> Callable[[], None]:
    """Three steps of forward, backward and optimizer, with the batch copied to the device."""
    import torch

    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 16)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.randn(64, 256).pin_memory()

    def run() -> None:
        for _ in range(3):
            model(batch.to("cuda", non_blocking=True)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


def graph() -> Callable[[], None]:
    """Five replays of a CUDA graph."""
    import torch

    x = torch.randn(512, 512, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.relu(x @ x)  # cuBLAS must be ready before a capture
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        torch.relu(x @ x).sum()

    def run() -> None:
        for _ in range(5):
            captured.replay()

    return run


def copies() -> Callable[[], None]:
    """Copies to, from and within the device and fills, on three streams."""
    import torch

    host = torch.randn(1 << 20).pin_memory()
    back = torch.empty(1 << 20).pin_memory()
    device, other = torch.randn(1 << 20, device="cuda"), torch.empty(1 << 20, device="cuda")
    streams = [torch.cuda.Stream() for _ in range(2)]

    def run() -> None:
        for stream in (*streams, torch.cuda.current_stream()):
            with torch.cuda.stream(stream):
                device.copy_(host, non_blocking=True)
                other.copy_(device)
                back.copy_(other, non_blocking=True)
                other.zero_()
            stream.synchronize()

    return run


PROGRAMS: dict[str, Callable[[], Callable[[], None]]] = {
    "matmul": matmul,
    "training": training,
    "graph": graph,
    "copies": copies,
}


def record(program: str, recorder: str, path: Path) -> Recording:
    """Records a program in a process of its own."""
    run_module("tests.gpu.programs", program, recorder, str(path))
    return load(path)[0]


def run_module(module: str, *arguments: str) -> str:
    """What it prints; its errors are those of a failed check."""
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def main(program: str, recorder: str, path: str) -> None:
    """Runs a program once before, so that what CUDA and torch do only once is in no recording."""
    import torch

    run = PROGRAMS[program]()
    run()
    torch.cuda.synchronize()
    profiler: AbstractContextManager[Any]
    if recorder == "ours":
        from otel_torchprof import profile

        profiler = profile(device="on", path=path)
    else:
        profiler = torch.profiler.profile()
    with profiler as prof:
        run()
        torch.cuda.synchronize()
    if recorder != "ours":
        prof.export_chrome_trace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
