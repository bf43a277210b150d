"""Trains a small network with DistributedDataParallel on the processor, on the ranks that torchrun starts."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # the same on all ranks: each takes its own part of the data
    inputs = torch.randn(2_048, 64)
    data = TensorDataset(inputs, inputs.square().sum(1, keepdim=True))
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for values, targets in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(values), targets)
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.1f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
