"""Trains on the ranks of torchrun. In the first start rank 1 kills itself once there is a file `go`."""

import os
import signal
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        while not Path("go").exists():
            time.sleep(0.02)
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.barrier()  # which the other rank never reaches
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
