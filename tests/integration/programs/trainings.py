"""Trains the same small model again and again, each time in a child with environment and limits of its own.

Each line on standard input is a JSON object: `environ`, `limits` (names of `resource` and their values, of
`RLIMIT_AS` beyond what there is), and the path `output`. A child writes there what it says, and beside it, in
`<output>.loss`, its last loss. For each line one with its exit status is written. What else a case may have:

- `ops_a_step`: so many more ops, which do not change the loss;
- `dev_shm_bytes`: the size of a `/dev/shm` of its own;
- `cgroup_root`: a folder that stands for `/` where limits on memory are read;
- `beside`: who else looks at the training, of `BESIDE`, with a folder `beside_output` for what it finds.

With the argument `once` it trains itself, and writes its last loss.
"""

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which the first optimizer would import
from torch import nn

import otel_torchprof.live.runtime
import otel_torchprof.telemetry.otlp_http
import otel_torchprof.telemetry.span_sink  # noqa: F401 - imported once, and not in every child
from otel_torchprof.instrumentor import TorchprofInstrumentor
from otel_torchprof.recorder.cgroup_memory import CgroupMemory
from otel_torchprof.recorder.memory_budget import memory_budget

STEPS = 8


def main() -> None:
    if sys.argv[1:] == ["once"]:
        print(fit(0).hex())
        return
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            train(json.loads(line))
            return
        _pid, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def train(case: dict[str, Any]) -> None:
    output = os.open(case["output"], os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(case["environ"])
    for name, value in case["limits"].items():
        limit = value + virtual_bytes() if name == "RLIMIT_AS" else value
        resource.setrlimit(getattr(resource, name), (limit, limit))
    if "dev_shm_bytes" in case:
        mount_dev_shm(case["dev_shm_bytes"])
    if "cgroup_root" in case:
        memory_budget.cgroups = CgroupMemory(Path(case["cgroup_root"]))
    beside = BESIDE[case["beside"]](Path(case["beside_output"])) if "beside" in case else nullcontext()
    with beside:
        TorchprofInstrumentor().instrument(skip_dep_check=True)  # as opentelemetry-instrument does
        loss = fit(case.get("ops_a_step", 0))
    Path(case["output"] + ".loss").write_text(loss.hex())


def fit(more_ops: int) -> float:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters())
    value = torch.ones(1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(64, 16)).square().mean()
        loss.backward()
        for _ in range(more_ops):
            value.neg_()
        optimizer.step()
    return float(loss.item())


def virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def mount_dev_shm(size_bytes: int) -> None:
    """For this process alone."""
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, ms_rec, ms_private = 0x20000, 1 << 14, 1 << 18
    size = f"size={size_bytes}".encode()
    for done in (
        libc.unshare(clone_newns),
        libc.mount(b"none", b"/", None, ms_rec | ms_private, None),
        libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, size),
    ):
        if done != 0:
            raise OSError(ctypes.get_errno(), "no /dev/shm of its own")


@contextmanager
def under_coverage(output: Path) -> Iterator[None]:
    import coverage

    measured = coverage.Coverage(data_file=str(output / "coverage"))
    measured.start()
    yield
    measured.stop()
    measured.save()


@contextmanager
def under_viztracer(output: Path) -> Iterator[None]:
    from viztracer import VizTracer

    with VizTracer(output_file=str(output / "trace.json"), verbose=0):
        yield


@contextmanager
def under_torch_profiler(output: Path) -> Iterator[None]:
    with torch.profiler.profile() as prof:
        yield
    prof.export_chrome_trace(str(output / "trace.json"))


BESIDE: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "coverage": under_coverage,
    "viztracer": under_viztracer,
    "torch.profiler": under_torch_profiler,
}


if __name__ == "__main__":
    main()
