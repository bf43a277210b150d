"""HolisticTraceAnalysis reads our export as it reads Kineto's: the same views with the same numbers."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recorder.capture import Capture
from tests.support.required_tools import require_package
from tests.support.test_data import KINETO, needs_data
from tests.support.training_loop import run_captured_steps

TraceAnalysis = require_package("hta.trace_analysis").TraceAnalysis
STEPS = 4
VIEWS: dict[str, Callable[[Any], Any]] = {
    "kernel types": lambda analysis: analysis.get_gpu_kernel_breakdown(visualize=False)[0],
    "kernels": lambda analysis: analysis.get_gpu_kernel_breakdown(visualize=False)[1],
    "idle time": lambda analysis: analysis.get_idle_time_breakdown(visualize=False)[0],
    "launches": lambda analysis: analysis.get_cuda_kernel_launch_stats(visualize=False)[0],
    "overlap": lambda analysis: analysis.get_comm_comp_overlap(visualize=False),
    "queues": lambda analysis: analysis.get_queue_length_summary(),
    "temporal": lambda analysis: analysis.get_temporal_breakdown(visualize=False),
}
# The first has synchronizations of all streams, which Kineto once wrote as work on stream 4294967295: idle
# time ends later with them. They are on stream -1 today, and in our export.
TRACES = {
    "alexnet_a100": VIEWS.keys() - {"temporal"},
    "h100_bert_small": VIEWS.keys(),
    "mi250_rocm_train": VIEWS.keys() - {"launches"},  # which knows CUDA's calls only
    "event_sync_multi_stream": VIEWS.keys(),
}


@needs_data
@pytest.mark.parametrize("name", TRACES)
def test_the_views_of_a_gpu_trace_say_the_same(name: str, tmp_path: Path) -> None:
    source = KINETO / f"{name}.json.gz"
    for folder in ("ours", "kinetos"):
        (tmp_path / folder).mkdir()
    shutil.copy(source, tmp_path / "kinetos" / "trace.json.gz")
    export(load(source)[0], tmp_path / "ours" / "trace.json.gz")
    ours, kinetos = (TraceAnalysis(trace_dir=str(tmp_path / folder)) for folder in ("ours", "kinetos"))
    for view in sorted(TRACES[name]):
        mine, theirs = (rows_of(VIEWS[view](analysis)) for analysis in (ours, kinetos))
        assert mine, view
        assert mine == theirs, view
    annotations, kinetos_annotations = (
        analysis.get_gpu_user_annotation_breakdown(visualize=False) for analysis in (ours, kinetos)
    )
    assert (annotations is None) == (kinetos_annotations is None)
    if annotations is not None:
        assert rows_of(annotations) == rows_of(kinetos_annotations)


def rows_of(table: Any) -> list[str]:
    """The rows of a table of pandas, which come in any order."""
    rounded = table.round(3)  # before it holds objects, which are not rounded
    return sorted(map(str, rounded.astype(object).where(table.notna(), None).to_numpy().tolist()))


def test_the_ops_of_one_loop_are_those_of_kinetos_export(tmp_path: Path) -> None:
    capture = Capture()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        capture.start()
        run_captured_steps(capture, STEPS, profiler=profiler)
        recording = capture.stop()
    for folder in ("ours", "kinetos"):
        (tmp_path / folder).mkdir()
    export(recording, tmp_path / "ours" / "trace.json.gz")
    profiler.export_chrome_trace(str(tmp_path / "kinetos" / "trace.json.gz"))
    (calls, times_us), (kinetos_calls, kinetos_times_us) = (
        ops_of(TraceAnalysis(trace_dir=str(tmp_path / folder))) for folder in ("ours", "kinetos")
    )
    # Kineto has the main thread only; ours has the thread beside it too.
    assert kinetos_calls - calls == Counter()
    both = [name for name, count in kinetos_calls.items() if calls[name] == count]
    assert len(both) > 30
    # The recorders' own time lies within each other's ops, so that times of the same ops are only near.
    assert sum(times_us[name] for name in both) == pytest.approx(
        sum(kinetos_times_us[name] for name in both), rel=0.5
    )


def ops_of(analysis: Any) -> tuple[Counter[str], Counter[str]]:
    """Calls and total time in us of each op, as the analysis read them."""
    names = analysis.t.symbol_table.get_sym_table()
    events = analysis.t.get_trace(0)
    ops = events[events["cat"] == names.index("cpu_op")]
    calls: Counter[str] = Counter()
    times_us: Counter[str] = Counter()
    for name, duration_us in zip(ops["name"], ops["dur"], strict=True):
        calls[names[name]] += 1
        times_us[names[name]] += duration_us
    return calls, times_us
