"""A training loop that uses threads in every way: two backwards on threads, jit.fork and a future.

Five steps. With a file name as argument, torch.profiler records the last three, and the number of its raw
events of each name goes to that file.
"""

import json
import sys
import threading
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._profiler import _ExperimentalConfig

torch.manual_seed(0)
torch.set_num_threads(2)


@torch.jit.script
def forked(x: Tensor) -> Tensor:
    future = torch.jit.fork(torch.sigmoid, x)
    doubled = torch.mul(x, 2.0)
    return torch.add(torch.jit.wait(future), doubled)


def main() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    branches = [nn.Linear(8, 4), nn.Linear(8, 4)]
    parameters = [p for module in (model, *branches) for p in module.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.01, foreach=False)

    def step() -> None:
        optimizer.zero_grad()
        inputs = torch.randn(4, 8)
        losses = [branch(inputs).square().sum() for branch in branches]
        threads = [threading.Thread(target=loss.backward) for loss in losses]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with torch.no_grad():
            forked(inputs)
        scope = torch.autograd.profiler.record_function("with a future")
        scope.__enter__()
        future: torch.futures.Future[Any] = torch.futures.Future()
        finished = scope._call_end_callbacks_on_future(future)
        torch.relu(inputs)
        future.set_result(None)
        finished.wait()
        model(inputs).mean().backward()
        optimizer.step()

    if len(sys.argv) == 1:
        for _ in range(5):
            step()
        return

    counts: Counter[str] = Counter()

    def count(prof: torch.profiler.profile) -> None:
        counts.update(event.name() for event in prof.profiler.kineto_results.events())

    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        schedule=torch.profiler.schedule(skip_first=2, wait=0, warmup=0, active=3, repeat=1),
        on_trace_ready=count,
        experimental_config=_ExperimentalConfig(profile_all_threads=True),
    ) as prof:
        for _ in range(5):
            step()
            prof.step()
    with open(sys.argv[1], "w", encoding="utf-8") as output:  # noqa: PTH123
        json.dump(counts, output)


if __name__ == "__main__":
    main()
