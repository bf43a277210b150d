"""The numpy dtypes of the tables beside the events; fields as in native/core/layout.h, by name and place."""

from __future__ import annotations

import numpy as np

# What only kernels, copies, synchronizations and the calls that cause them have. `event` is the row.
# Not known: -1, NaN, or 0 in `grid` and `block`.
DEVICE_DTYPE = np.dtype(
    [
        ("event", "<u8"),
        ("external_id", "<i8"),
        ("stream", "<i8"),
        ("size_bytes", "<i8"),
        ("graph_id", "<i8"),
        ("graph_node_id", "<i8"),
        ("wait_correlation", "<i8"),
        ("wait_stream", "<i4"),
        ("wait_event", "<i4"),
        ("device", "<i4"),
        ("context", "<i4"),
        ("grid", "<u4", 3),
        ("block", "<u4", 3),
        ("registers", "<i4"),
        ("shared_bytes", "<i4"),
        ("blocks_per_sm", "<f4"),
        ("warps_per_sm", "<f4"),
        ("occupancy_percent", "<f4"),
        ("callback_id", "<i4"),
        ("priority", "<i4"),
        ("reserved", "<u4"),
    ]
)

# A reading of a counter. `name` is a string id whose overload names the series; `event` -1 = none.
COUNTER_DTYPE = np.dtype(
    [("time_ns", "<i8"), ("event", "<i8"), ("track", "<u4"), ("name", "<u4"), ("value", "<f8")]
)

# What a trace said of an event that no column holds. `text` is a string id: of a JSON object.
ARGUMENTS_DTYPE = np.dtype([("event", "<u8"), ("text", "<u4"), ("reserved", "<u4")])

# An allocation (`size_bytes` > 0), a free (`size_bytes` < 0, or 0 when what was freed is not known), or a
# request that failed: see `MemoryFlags`. Not known: `address` 0, totals -1.
MEMORY_DTYPE = np.dtype(
    [
        ("time_ns", "<i8"),
        ("event", "<i8"),
        ("address", "<u8"),
        ("size_bytes", "<i8"),
        ("total_allocated_bytes", "<i8"),
        ("total_reserved_bytes", "<i8"),
        ("track", "<u4"),
        ("device", "<i4"),
        ("device_type", "u1"),
        ("flags", "u1"),
        ("reserved", "u1", 6),
    ]
)

# A tensor that an op was given, as native/core/tensor_table.h has it: `event` is the row, `address` that of
# its storage. Not known, or none: 0 for addresses, else -1. `item` is its place in a list of tensors.
TENSOR_DTYPE = np.dtype(
    [
        ("event", "<i8"),
        ("tensor", "<u8"),
        ("storage", "<u8"),
        ("address", "<u8"),
        ("storage_offset", "<i8"),
        ("storage_bytes", "<i8"),
        ("version", "<i8"),
        ("elements", "<i8"),
        ("argument", "<i4"),
        ("item", "<i4"),
        ("device", "<i4"),
        ("device_type", "u1"),
        ("dtype", "u1"),
        ("flags", "u1"),
        ("reserved", "u1"),
    ]
)

# What the program's own objects held at a moment: `role` is a `TensorRole`, `address` and `size_bytes` are
# those of the storage, `name` is a string id (of optimizer state its overload is the key), `owner` numbers
# the model or optimizer.
TENSOR_ROLE_DTYPE = np.dtype(
    [
        ("time_ns", "<i8"),
        ("address", "<u8"),
        ("size_bytes", "<i8"),
        ("name", "<u4"),
        ("device", "<i4"),
        ("device_type", "u1"),
        ("role", "u1"),
        ("owner", "<u2"),
        ("reserved", "u1", 4),
    ]
)
