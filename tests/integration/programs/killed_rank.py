"""Trains on the ranks of torchrun. In the first start rank 1 kills itself once there is a file `go`."""

import os
import signal
import time
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
    while os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        # The other rank waits until the agent ends it.
        if os.environ["RANK"] == "1" and Path("go").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.02)


if __name__ == "__main__":
    main()
