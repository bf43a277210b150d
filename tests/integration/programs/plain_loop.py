"""Four steps of training; arguments choose what happens around them."""

import os
import sys

import torch
from torch import nn


def train(steps: int) -> None:
    model = nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        model(torch.randn(4, 3)).square().mean().backward()
        optimizer.step()


def train_as_rank(rank: int) -> None:
    train(4)


def load(_: int) -> torch.Tensor:
    return torch.ones(1).cos()


class Items(torch.utils.data.Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return load(index)


if __name__ == "__main__":
    how = sys.argv[1]
    if how == "train":
        train(4)
    elif how == "fork":
        if os.fork() == 0:
            train(4)  # ends like any program, with its exit handlers
        else:
            os.wait()
    elif how == "spawn":
        torch.multiprocessing.spawn(train_as_rank, nprocs=1)
    elif how == "load":
        context = torch.multiprocessing.get_context("spawn")
        loader = torch.utils.data.DataLoader(Items(), num_workers=1, multiprocessing_context=context)
        assert sum(float(item) for item in loader) > 0
    elif how == "rank":
        train(4)
        print("rank", os.environ["RANK"])
