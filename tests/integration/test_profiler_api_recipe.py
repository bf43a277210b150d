"""Code written for torch.profiler, as its recipes have it, runs with its import changed."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

RECIPE = """
import torch
from torch import nn
from {module} import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
inputs = torch.randn(5, 3, 16, 16)

with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
    with record_function("model_inference"):
        model(inputs)
print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=10))
print(prof.key_averages(group_by_input_shape=True).table(sort_by="cpu_time_total", row_limit=10))

with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True) as prof:
    model(inputs)
print(prof.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=10))
print(prof.key_averages().table(sort_by="cpu_memory_usage", row_limit=10))

with profile(activities=[ProfilerActivity.CPU]) as prof:
    model(inputs)
prof.export_chrome_trace("trace.json")

with profile(activities=[ProfilerActivity.CPU], with_stack=True) as prof:
    model(inputs)
print(prof.key_averages(group_by_stack_n=5).table(sort_by="self_cpu_time_total", row_limit=2))
prof.export_stacks("stacks.txt", "self_cpu_time_total")

def trace_handler(p):
    print(p.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    p.export_chrome_trace("trace_" + str(p.step_num) + ".json")

with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=2),
    on_trace_ready=trace_handler,
) as p:
    for idx in range(8):
        model(inputs)
        p.step()

with profile(
    schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
    on_trace_ready=tensorboard_trace_handler("./log/resnet18"),
    record_shapes=True,
    profile_memory=True,
    with_stack=True,
) as prof:
    for step in range(8):
        prof.step()
        if step >= 1 + 1 + 3:
            break
        model(inputs)

prof = profile(
    schedule=schedule(wait=1, warmup=1, active=3, repeat=1),
    on_trace_ready=tensorboard_trace_handler("./log/resnet18_more"),
)
prof.start()
for step in range(6):
    prof.step()
    model(inputs)
prof.stop()
"""


def run(module: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(directory)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        names: dict[str, Any] = {"__name__": "__recipe__"}
        exec(compile(RECIPE.replace("{module}", module), "recipe.py", "exec"), names)
    return output.getvalue()


def shape_of(printed: str) -> list[str]:
    """What does not depend on times: the lines that are headers, with their columns."""
    return [" ".join(line.split()) for line in printed.splitlines() if "# of Calls" in line]


def files_in(directory: Path) -> list[tuple[str, int]]:
    files = [path.relative_to(directory) for path in directory.rglob("*") if path.is_file()]
    return sorted((str(path.parent), len(path.name.split("."))) for path in files)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", ["otel_torchprof", "otel_torchprof.profiler"])
def test_the_recipe_runs_with_its_import_changed(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "ours").mkdir()
    theirs = run("torch.profiler", tmp_path / "theirs", monkeypatch)
    ours = run(module, tmp_path / "ours", monkeypatch)
    # Torch finds no stacks for its tables any more.
    assert [line.removesuffix(" Source Location") for line in shape_of(ours)] == shape_of(theirs)
    assert any(line.endswith(" Source Location") for line in shape_of(ours))
    assert files_in(tmp_path / "ours") == files_in(tmp_path / "theirs")
    assert "model_inference" in ours
