"""Records a part of a training loop by hand and prints what took the time."""

import argparse
from collections import Counter

import torch
from torch import nn

from otel_torchprof import profile, record_function

SKIPPED_STEPS = 3
RECORDED_STEPS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", default="run.tprof", help="file for the recording")
    output = parser.parse_args().output

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train_step() -> None:
        with record_function("make batch"):
            inputs = torch.randn(256, 32)
            targets = inputs.sum(dim=1, keepdim=True)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()

    for _ in range(SKIPPED_STEPS):
        train_step()

    with profile(record_shapes=True, path=output) as prof:
        for step in range(RECORDED_STEPS):
            if step:
                prof.step()
            train_step()

    recording = prof.recording
    names = [recording.event_name(row) for row in range(len(recording))]
    print(f"{len(recording)} events in {len(recording.steps)} steps, saved to {output}")
    for name, count in Counter(names).most_common(5):
        print(f"{count:5}  {name}")


if __name__ == "__main__":
    main()
