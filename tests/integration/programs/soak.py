"""Trains for as many windows as it is told, with threads that come and go, failures, and forks.

At the end of each window a line: resident kilobytes and open handles.
"""

import os
import sys
import threading
from pathlib import Path

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
            optimizer.zero_grad()
            model(torch.ones(4, 8)).sum().backward()
            thread = threading.Thread(target=compute)
            thread.start()
            thread.join()
            optimizer.step()
        if window % 5 == 0:
            fork()
        print(resident_kb(), open_handles(), flush=True)


def compute() -> None:
    value = torch.ones(2)
    for _ in range(OPS_A_STEP):
        value = value + 1
    try:
        with record_function("fails"):
            torch.ones(2) @ torch.ones(3)
    except RuntimeError:
        pass


def fork() -> None:
    child = os.fork()
    if child == 0:
        torch.ones(2) + 1
        os._exit(0)
    os.waitpid(child, 0)


def open_handles() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def resident_kb() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


if __name__ == "__main__":
    main()
