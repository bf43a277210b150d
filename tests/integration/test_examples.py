"""Every example runs and leaves what its README promises."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from otel_torchprof import Recording
from tests.support.instrumented import attributes_of, run_command, run_instrumented, run_plain

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize("program", ["train_cnn.py", "train_transformer.py"])
def test_zero_code(program: str, tmp_path: Path) -> None:
    source = EXAMPLES / "zero-code" / program
    assert "otel" not in source.read_text("utf-8")
    finished = run_instrumented([str(source)], tmp_path)
    (step,) = finished.named("torch.step")
    assert attributes_of(step)["torch.step.number"] == 2
    assert finished.named("aten::addmm")
    assert len(finished.spans) <= 2_000
    assert finished.stderr == ""
    assert finished.stdout.count("\n") == 3


def test_zero_code_with_everything(tmp_path: Path) -> None:
    settings = {
        "SCHEDULE": "skip_first=5,active=10,repeat=1",
        "MAX_SPANS_PER_TRACE": "0",
        "MAX_TRACE_BYTES": "0",
    }
    finished = run_instrumented([str(EXAMPLES / "zero-code" / "train_transformer.py")], tmp_path, settings)
    numbers = [attributes_of(step)["torch.step.number"] for step in finished.named("torch.step")]
    assert sorted(numbers) == list(range(5, 15))
    # Two backwards an iteration and one step.
    optimizer_steps = finished.named("Optimizer.step#AdamW.step")
    assert len(optimizer_steps) == 10
    assert len(finished.named("autograd::engine::evaluate_function: EmbeddingBackward0")) == 20


def test_manual(tmp_path: Path) -> None:
    finished = run_plain([str(EXAMPLES / "manual" / "train.py"), "--output", "run.tprof"], tmp_path)
    recording = Recording.open(tmp_path / "run.tprof")
    assert f"{len(recording)} events in 3 steps, saved to run.tprof" in finished.stdout
    assert [step.number for step in recording.steps] == [0, 1, 2]
    names = [recording.event_name(row) for row in range(len(recording))]
    assert names.count("make batch") == 3
    assert names.count("Optimizer.step#SGD.step") == 3
    for name, count in Counter(names).most_common(5):
        assert f"{count:5}  {name}\n" in finished.stdout


def test_distributed(tmp_path: Path) -> None:
    program = str(EXAMPLES / "distributed" / "train_ddp.py")
    command = ["torchrun", "--standalone", "--nproc-per-node=3", program]
    finished = run_command(command, tmp_path, {"RECORDING_DIR": "recordings", "RUN_ID": "night"})
    assert finished.stdout.count("\n") == 3
    # Of three ranks the first, and the one whose turn it is.
    traces = {step["traceId"] for step in finished.named("torch.step")}
    assert len(traces) == len(finished.named("torch.step")) == 2
    recordings = [path.name for path in (tmp_path / "recordings").iterdir()]
    assert sorted(name.split("-")[2] for name in recordings) == ["rank0", "rank1"]
    assert finished.named("gloo:all_reduce") or finished.named("c10d::allreduce_")


@pytest.mark.parametrize("example", ["zero-code", "manual", "serving", "distributed"])
def test_every_example_explains_itself(example: str) -> None:
    readme = (EXAMPLES / example / "README.md").read_text("utf-8")
    for program in (EXAMPLES / example).glob("*.py"):
        assert program.name in readme
