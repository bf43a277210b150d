"""Trains for as many windows as it is told, with threads that come and go, failures, and forks.

At the end of each window a line: resident kilobytes, open handles, threads.
"""

import os
import sys
import threading
from pathlib import Path
from typing import NoReturn

import torch
from torch import nn
from torch.profiler import record_function

STEPS_A_WINDOW = 7  # as the schedule of the test has them
OPS_A_STEP = 2_000


def main() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for window in range(int(sys.argv[1])):
        for _ in range(STEPS_A_WINDOW):
            thread = threading.Thread(target=compute)
            thread.start()
            thread.join()
            step(model, optimizer)
        if os.fork() == 0:
            be_a_child(model, optimizer, exits=window % 20 == 0)
        _pid, status = os.wait()
        assert status == 0
        print(resident_kb(), entries("fd"), entries("task"), flush=True)


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    model(torch.ones(4, 8)).sum().backward()
    optimizer.step()


def be_a_child(model: nn.Module, optimizer: torch.optim.Optimizer, *, exits: bool) -> NoReturn:
    """Take a step and end at once, or like any program."""
    step(model, optimizer)
    if exits:
        sys.exit()
    os._exit(0)


def compute() -> None:
    value = torch.ones(2)
    for _ in range(OPS_A_STEP):
        value = value + 1
    try:
        with record_function("fails"):
            torch.ones(2) @ torch.ones(3)
    except RuntimeError:
        pass


def entries(folder: str) -> int:
    return sum(1 for _ in Path("/proc/self", folder).iterdir())


def resident_kb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


if __name__ == "__main__":
    main()
