"""Trains on all ranks that torchrun starts, until a file named `stop` lies in the working directory."""

from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    loader = DataLoader(TensorDataset(torch.randn(256, 64), torch.randn(256, 1)), batch_size=32)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    is_told_to_stop = torch.zeros(1)
    while not is_told_to_stop:
        for inputs, targets in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(inputs), targets).backward()
            optimizer.step()
        # All ranks leave together, however late one of them sees the file.
        is_told_to_stop += Path("stop").exists()
        dist.all_reduce(is_told_to_stop)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
