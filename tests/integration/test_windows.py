"""Windows of an instrumented program: which recordings it leaves."""

from __future__ import annotations

from pathlib import Path

from otel_torchprof import Recording
from tests.support.instrumented import run_instrumented

PROGRAM = """
import torch

model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(4):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
"""


def test_a_program_that_ends_as_a_window_begins_leaves_nothing_of_that(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    settings = {"SCHEDULE": "wait=0,warmup=0,active=2", "RECORDING_DIR": str(tmp_path / "recordings")}
    finished = run_instrumented(["train.py"], tmp_path, settings)
    recordings = [Recording.open(file) for file in sorted((tmp_path / "recordings").iterdir())]
    assert [len(recording.steps) for recording in recordings] == [2, 2]
    assert len(finished.named("torch.step")) == 4
