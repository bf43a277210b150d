"""Trains on the ranks of torchrun. In the first start rank 1 kills itself when told by the pipe `go`."""

import os
import signal
from pathlib import Path

import torch
from torch import nn


def main() -> None:
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        if os.environ["RANK"] == "1":
            Path("go").read_bytes()  # a pipe: returns when the test has opened it, and closed it
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            signal.pause()  # until the agent ends it


if __name__ == "__main__":
    main()
