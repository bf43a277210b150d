"""TensorBoard runs, read by the plugin itself: every view answers, as it does for Kineto's export."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
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
from tests.support.training_loop import run_steps

pytest.importorskip(
    "torch_tb_profiler", reason="torch-tb-profiler is not installed: pip install -e '.[test]'"
)

from torch_tb_profiler.consts import WORKER_PATTERN
from torch_tb_profiler.profiler.data import RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator

DATA = Path(os.environ.get("OTEL_TORCHPROF_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")
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


def operators(data: Any) -> Counter[str]:
    return Counter({op.name: op.calls for op in data.op_list_groupby_name})


def test_the_views_of_one_loop_are_those_of_kinetos_export(tmp_path: Path) -> None:
    capture = Capture(options=CaptureOptions(record_shapes=True))
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ) as profiler:
        capture.start()
        capture.begin_step(0)
        numbers = iter(range(1, STEPS + 1))

        def end_of_step() -> None:
            profiler.step()
            capture.begin_step(next(numbers))

        run_steps(STEPS, at_end_of_step=end_of_step)
        recording = capture.stop()
    profiler.export_chrome_trace(str(tmp_path / "kineto.pt.trace.json"))
    export(recording, tmp_path / "run", "tensorboard")

    data, profile = read_views(only_file(tmp_path / "run"))
    kinetos_data, kinetos_profile = read_views(tmp_path / "kineto.pt.trace.json")
    assert [view.name for view in profile.views] == [view.name for view in kinetos_profile.views]
    # Kineto has the main thread only; ours has the thread beside it too.
    missing = operators(kinetos_data) - operators(data)
    assert missing == Counter()
    assert len(data.steps_names) >= STEPS
    assert len(data.steps_names) >= STEPS
    rows, kinetos_rows = (
        {row["name"]: row["calls"] for row in read.operation_table_by_name["data"]}
        for read in (profile, kinetos_profile)
    )
    assert rows.keys() >= kinetos_rows.keys()
    assert all(rows[name] >= calls for name, calls in kinetos_rows.items())


@pytest.mark.skipif(
    not (DATA / "kineto").is_dir(), reason=f"no test data in {DATA}: set OTEL_TORCHPROF_TEST_DATA"
)
@pytest.mark.parametrize(
    "name", ["alexnet_a100", "h100_bert_small", "mi250_rocm_train", "torch_compile_triton"]
)
def test_every_view_of_a_gpu_trace_answers(name: str, tmp_path: Path) -> None:
    recording, _report = load(DATA / "kineto" / f"{name}.json.gz")
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
