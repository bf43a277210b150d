"""Trains the same small model again and again, each time in a child with environment and limits of its own.

Each line on standard input is a JSON object: `environ`, `limits` (names of `resource` and their values), and
the path `output`. A child writes there what it says, and beside it, in `<output>.loss`, its last loss. For
each line one with its exit status is written.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # which the first optimizer would import
from torch import nn

import otel_torchprof.runtime
import otel_torchprof.telemetry.otlp_http
import otel_torchprof.telemetry.span_sink  # noqa: F401 - imported once, and not in every child
from otel_torchprof.instrumentor import TorchprofInstrumentor

STEPS = 8


def main() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            train(json.loads(line))
            return
        _pid, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def train(case: dict[str, Any]) -> None:
    output = os.open(case["output"], os.O_CREAT | os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ.update(case["environ"])
    for name, value in case["limits"].items():
        resource.setrlimit(getattr(resource, name), (value, value))
    TorchprofInstrumentor().instrument(skip_dep_check=True)  # as opentelemetry-instrument does
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(torch.randn(64, 16)).square().mean()
        loss.backward()
        optimizer.step()
    Path(case["output"] + ".loss").write_text(loss.item().hex())


if __name__ == "__main__":
    main()
