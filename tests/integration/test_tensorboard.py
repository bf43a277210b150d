"""TensorBoard runs, read by the plugin itself: every view answers, as it does for Kineto's export."""

from __future__ import annotations

import gzip
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recording import RecordingBuilder
from tests.support.required_tools import require_package
from tests.support.test_data import KINETO, needs_data
from tests.support.training_loop import run_captured_steps

WORKER_PATTERN = require_package("torch_tb_profiler.consts").WORKER_PATTERN
RunProfileData = require_package("torch_tb_profiler.profiler.data").RunProfileData
RunGenerator = require_package("torch_tb_profiler.profiler.run_generator").RunGenerator

STEPS = 4


@pytest.fixture(autouse=True, scope="module")
def _cache_of_the_plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The plugin unpacks traces into the temporary directory and leaves them there."""
    before = tempfile.tempdir
    tempfile.tempdir = str(tmp_path_factory.mktemp("plugin"))
    yield
    tempfile.tempdir = before


def read_views(path: Path) -> tuple[Any, Any]:
    """What the plugin parses of a file, and the profile with all its views."""
    data = RunProfileData.parse("worker", "1", str(path), tempfile.gettempdir())
    return data, RunGenerator("worker", "1", data).generate_run_profile()


def only_file(run: Path) -> Path:
    (path,) = run.iterdir()
    assert WORKER_PATTERN.match(path.name)
    return path


def record_loop(folder: Path) -> tuple[Path, Path]:
    """The trace files of one loop, recorded by both at once: ours and Kineto's."""
    capture = Capture(options=CaptureOptions(record_shapes=True))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        # Without a schedule it marks no steps.
        schedule=torch.profiler.schedule(wait=0, warmup=0, active=STEPS + 1),
        record_shapes=True,
    ) as profiler:
        capture.start()
        run_captured_steps(capture, STEPS, profiler=profiler)
        recording = capture.stop()
    profiler.export_chrome_trace(str(folder / "kineto.pt.trace.json"))
    export(recording, folder / "run", "tensorboard")
    return only_file(folder / "run"), folder / "kineto.pt.trace.json"


def test_the_views_of_one_loop_are_those_of_kinetos_export(tmp_path: Path) -> None:
    (data, profile), (kinetos_data, kinetos_profile) = map(read_views, record_loop(tmp_path))
    assert [view.name for view in profile.views] == [view.name for view in kinetos_profile.views]
    assert len(data.steps_names) >= STEPS
    assert len(kinetos_data.steps_names) >= STEPS
    rows, kinetos_rows = (
        {row["name"]: row for row in read.operation_table_by_name["data"]}
        for read in (profile, kinetos_profile)
    )
    # Kineto has the main thread only; ours has the thread beside it too.
    assert rows.keys() >= kinetos_rows.keys()
    assert all(rows[name]["calls"] >= row["calls"] for name, row in kinetos_rows.items())
    both = [name for name, row in kinetos_rows.items() if rows[name]["calls"] == row["calls"]]
    assert len(both) > 30
    # The recorders' own time lies within each other's ops, so that times of the same ops are only near.
    for column in ("host_self_duration", "host_total_duration"):
        ours_us, kinetos_us = (sum(table[name][column] for name in both) for table in (rows, kinetos_rows))
        assert ours_us == pytest.approx(kinetos_us, rel=0.5)
    assert cost_us(profile, "DataLoader") > 0


def test_the_memory_view_is_that_of_kinetos_export(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
    capture = Capture(options=CaptureOptions(profile_memory=True))
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profiler:
        capture.start()
        model(torch.ones(4, 8)).square().mean().backward()  # on this thread, as Kineto sees no other
        recording = capture.stop()
    profiler.export_chrome_trace(str(tmp_path / "kineto.pt.trace.json"))
    export(recording, tmp_path / "run", "tensorboard")

    def sizes_by_op(path: Path) -> dict[str, list[Any]]:
        _data, profile = read_views(path)
        assert "Memory" in {view.display_name for view in profile.views}
        rows = profile.get_memory_stats(memory_metric="B")["rows"]["CPU"]
        return {name: row for name, *row in rows}

    ours = sizes_by_op(only_file(tmp_path / "run"))
    theirs = sizes_by_op(tmp_path / "kineto.pt.trace.json")
    assert {name: ours.get(name) for name in theirs} == theirs
    assert len(theirs) > 3


def cost_us(profile: Any, name: str) -> int:
    """One part of the average step in the overview."""
    (step,) = (item for item in profile.overview["performance"] if item["name"] == "Average Step Time")
    return int(next(part["value"] for part in step["children"] if part["name"] == name))


# What the plugin calls things, by what Kineto calls them since 2022: it reads only the old names.
OLD_CATEGORIES = {"cuda_runtime": "Runtime", "cuda_driver": "Runtime", "fwdbwd": "forward_backward"}
OLD_OPS = ("enumerate(DataLoader)#", "Optimizer.step")


def as_kineto_wrote_in_2021(trace: Path, folder: Path) -> Path:
    document = json.loads(gzip.decompress(trace.read_bytes()))
    for event in document["traceEvents"]:
        is_old_op = event.get("cat") == "user_annotation" and event["name"].startswith(OLD_OPS)
        event["cat"] = "cpu_op" if is_old_op else OLD_CATEGORIES.get(event.get("cat"), event.get("cat"))
    path = folder / "old.pt.trace.json"
    path.write_text(json.dumps(document))
    return path


@needs_data
@pytest.mark.parametrize("name", ["h100_bert_small", "mi250_rocm_train"])
def test_every_number_of_a_gpu_trace_is_that_of_kinetos_own(name: str, tmp_path: Path) -> None:
    trace = KINETO / f"{name}.json.gz"
    export(load(trace)[0], tmp_path / "run", "tensorboard")
    _data, ours = read_views(only_file(tmp_path / "run"))
    _data, kinetos = read_views(as_kineto_wrote_in_2021(trace, tmp_path))
    assert [view.name for view in ours.views] == [view.name for view in kinetos.views]
    rows, kinetos_rows = (
        {
            row["name"]: {key: value for key, value in row.items() if key != "has_call_stack"}
            for row in read.operation_table_by_name["data"]
        }
        for read in (ours, kinetos)
    )
    assert rows == kinetos_rows
    assert ours.overview["performance"] == kinetos.overview["performance"]
    kernels, kinetos_kernels = (
        sorted(map(str, read.kernel_table["data"]["rows"])) for read in (ours, kinetos)
    )
    assert kernels == kinetos_kernels


@needs_data
@pytest.mark.parametrize("name", ["alexnet_a100", "torch_compile_triton"])
def test_every_view_of_a_gpu_trace_answers(name: str, tmp_path: Path) -> None:
    recording, _report = load(KINETO / f"{name}.json.gz")
    export(recording, tmp_path / "run", "tensorboard")
    data, profile = read_views(only_file(tmp_path / "run"))
    assert {"overall", "operator", "kernel", "trace"} <= {view.name for view in profile.views}
    # Joined to their ops, which the plugin does by ids.
    assert profile.has_runtime
    assert data.kernel_list_groupby_name_op
    assert profile.overview["performance"]


def test_a_run_keeps_its_other_workers(tmp_path: Path) -> None:
    for rank in range(2):
        builder = RecordingBuilder()
        builder.add_metadata({"host_name": "node one", "rank": rank})
        builder.add_track("main")
        builder.add_event("aten::add", 5_000_000, 9_000_000)
        export(builder.finish(), tmp_path / "run", "tensorboard")
    names = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert names == ["node-one_0.5.pt.trace.json.gz", "node-one_1.5.pt.trace.json.gz"]
