"""The structure of device work: traces that other people recorded on GPUs, and what our collector decodes."""

from __future__ import annotations

from functools import cache

import pytest

from otel_torchprof.importers import load
from otel_torchprof.recording import Recording
from tests.support.device_structure import check_lanes, check_links, check_metrics, check_spans
from tests.support.test_data import KINETO, needs_data

TRACES = [
    "alexnet_a100", "event_sync_multi_stream", "h100_bert_small",
    "mi250_rocm_train", "sglang_qwen3_decode", "torch_compile_triton",
]  # fmt: skip


@cache
def imported(name: str) -> Recording:
    return load(KINETO / f"{name}.json.gz")[0]


@needs_data
@pytest.mark.parametrize("name", TRACES)
def test_imported_work_has_lanes_links_times_and_metrics(name: str) -> None:
    recording = imported(name)
    assert check_lanes(recording) > 0
    assert check_links(recording) > 0
    assert check_spans(recording) > 0
    assert check_metrics(recording) > 0
