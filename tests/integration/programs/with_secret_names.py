"""Trains a few steps, and names in its scopes whom it does so for. `redact` is its redaction hook."""

import os

import torch
from torch import nn

import otel_torchprof

CUSTOMER = os.environ["CUSTOMER"]


def redact(text: str) -> str:
    return text.replace(CUSTOMER, "customer")


def main() -> None:
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        with torch.profiler.record_function(f"fit {CUSTOMER}"), otel_torchprof.span(f"loss of {CUSTOMER}"):
            model(torch.ones(2, 4)).sum().backward()
        with torch.profiler.record_function("with an argument", CUSTOMER):
            optimizer.step()


if __name__ == "__main__":
    main()
