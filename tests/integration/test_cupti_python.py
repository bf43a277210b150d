"""Our offsets in CUPTI's records against the ones that NVIDIA's own package for Python has."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.required_tools import require_package

if platform.machine() != "x86_64" or sys.version_info >= (3, 14):
    pytest.skip("there is no cupti-python for this machine or Python", allow_module_level=True)
cupti = require_package("cupti.cupti")

LAYOUT = Path(__file__).parents[2] / "native" / "sources" / "cupti" / "record_layout.h"

# Names of our fields, by record, as NVIDIA's package calls them.
RECORDS: dict[str, tuple[str, dict[str, str]]] = {
    "kernel": (
        "activity_kernel10_dtype",
        {
            "Registers": "registers_per_thread", "Start": "start", "End": "end", "Device": "device_id",
            "Context": "context_id", "Stream": "stream_id", "Grid": "grid_x", "Block": "block_x",
            "StaticShared": "static_shared_memory", "DynamicShared": "dynamic_shared_memory",
            "Correlation": "correlation_id", "Name": "name", "GraphNode": "graph_node_id",
            "Graph": "graph_id",
        },
    ),
    "memcpy_record": (
        "activity_memcpy6_dtype",
        {
            "CopyKind": "copy_kind", "Source": "src_kind", "Destination": "dst_kind", "Bytes": "bytes",
            "Start": "start", "End": "end", "Device": "device_id", "Context": "context_id",
            "Stream": "stream_id", "Correlation": "correlation_id", "GraphNode": "graph_node_id",
            "Graph": "graph_id",
        },
    ),
    "peer_copy": (
        "activity_memcpy_pto_p4_dtype",
        {"Correlation": "correlation_id", "GraphNode": "graph_node_id", "Graph": "graph_id"},
    ),
    "memset_record": (
        "activity_memset4_dtype",
        {
            "Bytes": "bytes", "Start": "start", "End": "end", "Device": "device_id", "Context": "context_id",
            "Stream": "stream_id", "Correlation": "correlation_id", "MemoryKind": "memory_kind",
            "GraphNode": "graph_node_id", "Graph": "graph_id",
        },
    ),
    "api": (
        "activity_api_dtype",
        {
            "Callback": "cbid", "Start": "start", "End": "end", "Thread": "thread_id",
            "Correlation": "correlation_id",
        },
    ),
    "synchronization": (
        "activity_synchronization2_dtype",
        {
            "Type": "type", "Start": "start", "End": "end", "Correlation": "correlation_id",
            "Context": "context_id", "Stream": "stream_id", "Event": "cuda_event_id",
        },
    ),
    "overhead": (
        "activity_overhead3_dtype",
        {"OverheadKind": "overhead_kind", "Start": "start", "End": "end"},
    ),
    "external_correlation": (
        "activity_external_correlation_dtype",
        {"ExternalKind": "external_kind", "ExternalId": "external_id", "Correlation": "correlation_id"},
    ),
    "graph_trace": (
        "activity_graph_trace2_dtype",
        {
            "Correlation": "correlation_id", "Start": "start", "End": "end", "Device": "device_id",
            "Graph": "graph_id", "Context": "context_id", "Stream": "stream_id",
        },
    ),
}  # fmt: skip


def our_offsets(record: str) -> dict[str, int]:
    """The constants of a namespace of the header."""
    found = re.search(rf"^namespace {record} \{{(.*?)^\}}", LAYOUT.read_text("utf-8"), re.M | re.S)
    assert found, record
    constants = re.findall(r"constexpr std::size_t k(\w+) = (\d+);", found[1])
    return {name: int(offset) for name, offset in constants}


@pytest.mark.parametrize("record", RECORDS)
def test_offsets_are_nvidias(record: str) -> None:
    dtype_name, names = RECORDS[record]
    fields: Any = getattr(cupti, dtype_name).fields
    ours = our_offsets(record)
    theirs = {name: fields[field][1] for name, field in names.items()}
    assert theirs == {name: ours[name] for name in names}
    assert set(ours) - set(names) <= {
        "ObjectKind",
        "Thread",
    }  # of an overhead, whose union has no field there


def test_kinds_of_records_have_nvidias_numbers() -> None:
    text = LAYOUT.read_text("utf-8")
    body = text[text.index("enum class ActivityKind") :].partition("};")[0]
    ours = {name.upper(): int(number) for name, number in re.findall(r"k(\w+) = (\d+),", body)}
    theirs = {kind.name.replace("_", ""): kind.value for kind in cupti.ActivityKind}
    assert ours
    assert {name: theirs[name] for name in ours} == ours


@pytest.mark.parametrize(
    ("table", "calls"),
    [("kNoisyRuntimeCalls", "runtime_api_trace_cbid"), ("kDriverLaunches", "driver_api_trace_cbid")],
)
def test_calls_that_are_told_apart_are_the_ones_that_are_meant(table: str, calls: str) -> None:
    text = (LAYOUT.parent / "call_filter.h").read_text("utf-8")
    body = text[text.index(table) :].partition("};")[0]
    meant = {int(number): name for number, name in re.findall(r"^\s+(\d+),\s+// (\w+)", body, re.M)}
    assert len(meant) == len(re.findall(r"^\s+\d+,", body, re.M))
    called = {call.value: re.sub(r"_v\d+$", "", call.name) for call in getattr(cupti, calls)}
    internal = {number for number, name in meant.items() if name.startswith("__")}  # which it leaves out
    assert {number: called.get(number, meant[number]) for number in meant} == meant
    assert meant.keys() - called.keys() == internal
