"""Events of the common shapes, most of any trace: columns in, columns out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from otel_torchprof._native import core
from otel_torchprof.importers.chrome.categories import USER_SCOPE
from otel_torchprof.importers.chrome.flows import Flows
from otel_torchprof.importers.chrome.texts import TextTables
from otel_torchprof.importers.chrome.times import NO_TIME
from otel_torchprof.importers.chrome.trace_builder import TraceBuilder
from otel_torchprof.recording import ARGUMENTS_DTYPE, DEVICE_DTYPE, MEMORY_DTYPE, EventKind

Column = npt.NDArray[np.int64]


def add_complete_events(block: core.TraceBlock, texts: TextTables, trace: TraceBuilder) -> None:
    """Adds the complete events of a block, and what stands beside them."""
    start_ns = trace.clock.from_base(block.start_ns)
    kept = start_ns != NO_TIME
    start_ns = start_ns[kept]
    categories = texts.categories(block.category[kept])
    kinds = np.array(trace.categories.kinds, dtype=np.int64)[categories]
    on_device = np.array(trace.categories.on_device, dtype=np.bool_)[categories]
    names = texts.names(block.name[kept])
    trace.names.refine_kinds(kinds, names)
    tracks = trace.tracks.at(texts.places(block.place[kept]), on_device)
    first = trace.draft.add_block(
        {
            "start_ns": start_ns,
            "end_ns": start_ns + trace.durations(block.duration_ns[kept], start_ns),
            "name": names,
            "track": tracks,
            "kind": kinds,
            "scope": np.where(kinds == EventKind.USER, USER_SCOPE, 0),
            "flags": block.flags[kept],
            "sequence": np.maximum(block.sequence[kept], -1),
            "forward_thread": block.forward_thread[kept],
            "correlation": np.maximum(block.correlation[kept], -1),
            "payload": _payloads(block, texts)[kept],
        }
    )
    trace.add_steps(first, kinds, names)
    trace.add_op_external_ids(first, kinds, block.external_id[kept])
    # Rows of the block to rows of the draft.
    rows = np.cumsum(kept) - 1 + first

    devices = _kept_records(block.device_records.view(DEVICE_DTYPE), kept)
    devices["event"] = rows[devices["event"]]
    trace.device_records.append(devices)
    trace.set_devices(devices[on_device[devices["event"].astype(np.int64) - first]])
    arguments = _kept_records(block.arguments_records.view(ARGUMENTS_DTYPE), kept)
    arguments["event"] = rows[arguments["event"]]
    arguments["text"] = texts.arguments(arguments["text"])
    trace.arguments_records.append(arguments)
    trace.report.add_problem("arguments_too_long", block.arguments_left_out)


def add_memory(block: core.TraceBlock, texts: TextTables, trace: TraceBuilder) -> None:
    """Adds the memory records of a block."""
    records = block.memory_records.view(MEMORY_DTYPE).copy()
    records["time_ns"] = trace.clock.from_base(records["time_ns"])
    records = records[records["time_ns"] != NO_TIME]
    places = texts.places(records["track"])
    records["track"] = trace.tracks.at(places, np.zeros(len(places), dtype=np.bool_))
    trace.memory_records.append(records)


def add_flows(block: core.TraceBlock, texts: TextTables, trace: TraceBuilder, flows: Flows) -> None:
    """Adds the ends of flows of a block."""
    times = trace.clock.from_base(block.flow_time_ns)
    kept = times != NO_TIME
    families = texts.flow_families(block.flow_category[kept])
    places = texts.places(block.flow_place[kept])
    flows.add_columns(families, block.flow_id[kept], block.flow_is_start[kept], places, times[kept])


def _payloads(block: core.TraceBlock, texts: TextTables) -> Column:
    payloads = np.zeros(len(block.inputs), dtype=np.int64)
    has_inputs = block.inputs != core.NO_TEXT
    payloads[has_inputs] = texts.payloads(block.inputs[has_inputs])
    return payloads


def _kept_records(records: npt.NDArray[np.void], kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.void]:
    return records[kept[records["event"].astype(np.int64)]]
