"""HolisticTraceAnalysis reads our export as it reads Kineto's."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from otel_torchprof.exporters import export
from otel_torchprof.importers import load

DATA = Path(os.environ.get("OTEL_TORCHPROF_TEST_DATA") or Path(__file__).parents[3] / "shared" / "data")


@pytest.fixture
def analyses(tmp_path: Path) -> tuple[Any, Any]:
    """Of a trace of Kineto's, and of what our export makes of it."""
    source = DATA / "kineto" / "alexnet_a100.json.gz"
    if not source.exists():
        pytest.skip(f"no test data in {DATA}: set OTEL_TORCHPROF_TEST_DATA")
    if importlib.util.find_spec("hta") is None:
        pytest.skip("HolisticTraceAnalysis is not installed (extra test-tools)")
    from hta.trace_analysis import TraceAnalysis

    for name in ("ours", "kinetos"):
        (tmp_path / name).mkdir()
    shutil.copy(source, tmp_path / "kinetos" / "trace.json.gz")
    recording, _report = load(source)
    export(recording, tmp_path / "ours" / "trace.json.gz")
    ours, kinetos = (TraceAnalysis(trace_dir=str(tmp_path / name)) for name in ("ours", "kinetos"))
    return ours, kinetos


def test_the_views_say_the_same(analyses: tuple[Any, Any]) -> None:
    views: tuple[Callable[[Any], Any], ...] = (
        lambda analysis: analysis.get_gpu_kernel_breakdown(visualize=False)[0],
        lambda analysis: analysis.get_gpu_kernel_breakdown(visualize=False)[1],
        lambda analysis: analysis.get_idle_time_breakdown(visualize=False)[0],
        lambda analysis: analysis.get_cuda_kernel_launch_stats(visualize=False)[0],
    )
    for view in views:
        ours, kinetos = (view(analysis) for analysis in analyses)
        assert len(ours) > 0
        for mine, kinetos_row in zip(in_order(ours), in_order(kinetos), strict=True):
            assert mine == pytest.approx(kinetos_row)


def in_order(table: Any) -> list[list[Any]]:
    """The rows of a table of pandas, which come in any order."""
    rows: list[list[Any]] = table.round(6).to_numpy().tolist()
    return sorted(rows)


def test_compute_time_is_the_same(analyses: tuple[Any, Any]) -> None:
    ours, kinetos = (analysis.get_temporal_breakdown(visualize=False) for analysis in analyses)
    assert ours["compute_time(us)"].tolist() == kinetos["compute_time(us)"].tolist()
