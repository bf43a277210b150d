"""Small programs for a GPU, recorded by us or by torch's own profiler: never by both in one process.

python -m tests.gpu.programs ours FOLDER             all into FOLDER, as NAME.tprof
python -m tests.gpu.programs torch FOLDER matmul     one, as matmul.json.gz
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, TypeAlias

ROOT = Path(__file__).parents[2]
# Imports of torch on a machine that has just started and CUDA's own start are in it; what hangs must leave
# time for the rest.
TIMEOUT_S = 60
SUFFIXES = {"ours": ".tprof", "torch": ".json.gz"}
# Until the device's clocks are those of work.
_WARM_UP_S = 0.5

Recorder: TypeAlias = Literal["ours", "torch"]
OURS_AND_TORCHS: tuple[Recorder, Recorder] = ("ours", "torch")


MATMULS = 30
GRAPH_REPLAYS = 10
COPIED_BYTES = 32 << 20


def matmul() -> Callable[[], None]:
    """Ten products of each of three sizes."""
    import torch

    pairs = [
        (torch.randn(size, size, device="cuda"), torch.randn(size, size, device="cuda"))
        for size in (256, 1024, 4096)
    ]

    def run() -> None:
        for _ in range(MATMULS // len(pairs)):
            for left, right in pairs:
                torch.relu(left @ right)

    return run


def training() -> Callable[[], None]:
    """Ten steps of forward, backward and optimizer, with the batch copied to the device."""
    import torch

    model = torch.nn.Sequential(
        torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 64)
    ).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    batch = torch.randn(2048, 1024).pin_memory()

    def run() -> None:
        for _ in range(10):
            model(batch.to("cuda", non_blocking=True)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()

    return run


def graph() -> Callable[[], None]:
    """Ten replays of a CUDA graph."""
    import torch

    x = torch.randn(2048, 2048, device="cuda")

    def work() -> Any:
        return torch.relu(x @ x).sum()

    # What libraries and kernels do only once must be done before a capture, which forbids some of it.
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            work()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        output = work()

    def run() -> None:
        for _ in range(GRAPH_REPLAYS):
            captured.replay()
        assert output.is_cuda  # what the graph writes into lives as long as this

    return run


def copies() -> Callable[[], None]:
    """Copies to, from and within the device and fills, on three streams."""
    import torch

    host = torch.randn(COPIED_BYTES // 4).pin_memory()
    back = torch.empty(COPIED_BYTES // 4).pin_memory()
    device, other = (
        torch.randn(COPIED_BYTES // 4, device="cuda"),
        torch.empty(COPIED_BYTES // 4, device="cuda"),
    )
    streams = [torch.cuda.Stream() for _ in range(2)]
    torch.cuda.synchronize()  # the streams do not wait for what made the tensors

    def run() -> None:
        for _ in range(5):
            for stream in (*streams, torch.cuda.current_stream()):
                with torch.cuda.stream(stream):
                    device.copy_(host, non_blocking=True)
                    other.copy_(device)
                    back.copy_(other, non_blocking=True)
                    other.zero_()
                    # Sums of many are kept count of in memory that a memset clears.
                    other.sum()
                stream.synchronize()

    return run


PROGRAMS: dict[str, Callable[[], Callable[[], None]]] = {
    "matmul": matmul,
    "training": training,
    "graph": graph,
    "copies": copies,
}


def recording_path(folder: Path, program: str, recorder: Recorder) -> Path:
    """Where the recording of a program is."""
    return folder / f"{program}{SUFFIXES[recorder]}"


def record(recorder: Recorder, folder: Path, *programs: str) -> str:
    """Records programs, all without names, in a new process; what it printed.

    Raises:
        AssertionError: one of them failed; what the others recorded is there.
    """
    return run_module("tests.gpu.programs", recorder, str(folder), *programs)


def run_module(module: str, *arguments: str) -> str:
    """What it prints; its errors are those of a failed check."""
    return must_pass(run_python("-m", module, *arguments)).stdout


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a new Python to its end, or until its time is over, which is an error like any other."""
    command = [sys.executable, *arguments]
    try:
        return subprocess.run(
            command, cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as expired:
        said = [stream.decode(errors="replace") if isinstance(stream, bytes) else stream or ""
                for stream in (expired.stdout, expired.stderr)]  # fmt: skip
        return subprocess.CompletedProcess(command, -9, said[0], f"{said[1]}\nover {TIMEOUT_S} s: killed")


def must_pass(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """The same process, if it ended well; else all that it said is in the error: nobody can ask again."""
    assert done.returncode == 0, (
        f"exit {done.returncode}\n--- stdout\n{done.stdout[-8000:]}\n--- stderr\n{done.stderr[-8000:]}"
    )
    return done


def main(recorder: Recorder, folder: Path, programs: Sequence[str]) -> int:
    """Records each of the programs, whatever becomes of the others; 0 = all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = 0
    for program in programs or list(PROGRAMS):
        path = recording_path(folder, program, recorder)
        try:
            _record_here(program, recorder, path)
        except Exception:
            print(f"{program} by {recorder} failed:", flush=True)
            traceback.print_exc()
            failed = 1
        else:
            print(f"{program} by {recorder}: {path.stat().st_size} bytes", flush=True)
    return failed


def _record_here(program: str, recorder: Recorder, path: Path) -> None:
    """Runs a program for a while before, so that what CUDA and torch do only once is in no recording."""
    import torch

    run = PROGRAMS[program]()
    until = time.monotonic() + _WARM_UP_S
    while True:
        run()
        torch.cuda.synchronize()
        if time.monotonic() >= until:
            break
    profiler: AbstractContextManager[Any]
    if recorder == "ours":
        from otel_torchprof import profile

        profiler = profile(device="on", path=path)
    else:
        profiler = torch.profiler.profile()
    with profiler as prof:
        run()
        torch.cuda.synchronize()
    if recorder == "torch":
        prof.export_chrome_trace(str(path))


if __name__ == "__main__":
    _recorder, _folder, *_programs = sys.argv[1:]
    sys.exit(main("ours" if _recorder == "ours" else "torch", Path(_folder), _programs))
