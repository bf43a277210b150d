"""Findings in traces that other people recorded; each was checked by hand against its trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from otel_torchprof.analysis.patterns import Level, find_patterns
from otel_torchprof.exporters import export
from otel_torchprof.importers import load
from otel_torchprof.recording import Recording
from tests.support.test_data import DATA, needs_data

pytestmark = needs_data

FILES = sorted(
    path for folder in ("kineto", "otlp", "trace-event") for path in (DATA / folder).glob("*.json*")
)
NO_TRACES = {"simple_add_execution_trace.json.gz", "events.json", "logs.json", "metrics.json"}
TRACES = [path for path in FILES if path.name not in NO_TRACES]
# By trace: patterns and how many events show each. In all others nothing is found.
FOUND = {
    "alexnet_a100.json.gz": {"channels-last-mismatch": 6, "fp32-matmul": 6},
    "event_sync_multi_stream.json.gz": {"fp32-matmul": 3},
    "h100_bert_small.json.gz": {"launch-bound": 58},
    "mi250_rocm_train.json.gz": {"extra-device-copy": 2},
    "resnet50_num_workers_0.pt.trace.json.gz": {
        "channels-last-mismatch": 6,
        "data-loader-in-process": 6,
        "gradients-zeroed": 6,
        "pageable-copy": 6,
        "single-tensor-optimizer": 6,
    },
    "sampled_rank0.json.gz": {"fp32-matmul": 32},
    "sampled_rank1.json.gz": {"fp32-matmul": 32},
}


def findings_of(recording: Recording) -> list[tuple[str, Level, int, int]]:
    return [
        (one.pattern, one.confidence, one.count, one.cost_ns) for one in find_patterns(recording).findings
    ]


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_what_is_found_is_true(path: Path) -> None:
    found = findings_of(load(path)[0])
    assert {pattern: count for pattern, _, count, _ in found} == FOUND.get(path.name, {})
    assert Level.LOW not in {confidence for _, confidence, _, _ in found}


@pytest.mark.parametrize("name", FOUND)
def test_the_same_is_found_after_a_way_through_otlp(name: str, tmp_path: Path) -> None:
    recording, _report = load(DATA / "kineto" / name)
    export(recording, tmp_path / "trace.otlp.json", "otlp-json")
    again, report = load(tmp_path / "trace.otlp.json")
    assert report.format == "otlp"
    assert findings_of(again) == findings_of(recording)
