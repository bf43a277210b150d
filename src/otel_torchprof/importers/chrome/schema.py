"""The fields of trace events that are kept; the decoder steps over all others."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw, Struct, field

# The text of one event.
Slice = bytes | bytearray | memoryview | Raw

NO_RAW = Raw()

# What names something: text or a number.
Label = str | int | float | None


class Arguments(Struct, gc=False):
    """Known arguments, whatever their JSON type: `bytes`, `stream` and `grid` change it within one file.

    In the order in which Kineto writes them: the decoder looks for each behind the one before.
    """

    external_id: Any = field(default=None, name="External id")
    cbid: Any = None
    cid: Any = None
    device: Any = None
    context: Any = None
    stream: Any = None
    correlation: Any = None
    old_external_id: Any = field(default=None, name="external id")
    registers: Any = field(default=None, name="registers per thread")
    shared_bytes: Any = field(default=None, name="shared memory")
    blocks_per_sm: Any = field(default=None, name="blocks per SM")
    warps_per_sm: Any = field(default=None, name="warps per SM")
    grid: Any = None
    block: Any = None
    occupancy_percent: Any = field(default=None, name="est. achieved occupancy %")
    bytes: Any = None
    # Inputs of ops; left as text, which many ops share.
    concrete_inputs: Raw = field(default=NO_RAW, name="Concrete Inputs")
    input_types: Raw = field(default=NO_RAW, name="Input type")
    input_strides: Raw = field(default=NO_RAW, name="Input Strides")
    input_dims: Raw = field(default=NO_RAW, name="Input Dims")
    forward_thread: Any = field(default=None, name="Fwd thread id")
    sequence: Any = field(default=None, name="Sequence number")
    priority: Any = None
    graph_id: Any = field(default=None, name="graph id")
    graph_node_id: Any = field(default=None, name="graph node id")
    wait_correlation: Any = field(default=None, name="wait_on_cuda_event_record_corr_id")
    wait_stream: Any = field(default=None, name="wait_on_stream")
    wait_event: Any = field(default=None, name="wait_on_cuda_event_id")
    # Our own exporter's: of names that are not valid UTF-8, of calls of modules, of events
    # that were open at the end.
    name_bytes: Any = field(default=None, name="Name bytes")
    overload_name: Any = field(default=None, name="Overload name")
    function: Any = field(default=None, name="Python function")
    finished: Any = None
    training: Any = field(default=None, name="Training")
    # Of what it set aside, as it crosses slices, and of steps that are no events.
    step_phase: Any = field(default=None, name="Step phase")
    step_partial: Any = field(default=None, name="Step partial")
    on_thread: Any = field(default=None, name="On thread")
    synchronous: Any = field(default=None, name="Synchronous")
    # Of "[memory]" instants.
    memory_bytes: Any = field(default=None, name="Bytes")
    address: Any = field(default=None, name="Addr")
    device_type: Any = field(default=None, name="Device Type")
    device_id: Any = field(default=None, name="Device Id")
    total_allocated: Any = field(default=None, name="Total Allocated")
    total_reserved: Any = field(default=None, name="Total Reserved")
    # Of metadata events.
    name: Any = None
    labels: Any = None
    sort_index: Any = None


NO_ARGUMENTS = Arguments()


class Event(Struct, gc=False):
    """A trace event. The arguments of counters have any name: see `numeric_arguments`."""

    ph: str | None = None
    name: Label = None
    cat: Label = None
    pid: Label = None
    tid: Label = None
    ts: Any = None
    dur: Any = None
    id: Label = None
    id2: Any = None
    args: Arguments | None = None


class LooseEvent(Struct, gc=False):
    """A trace event in which anything may stand anywhere."""

    ph: Any = None
    name: Any = None
    cat: Any = None
    pid: Any = None
    tid: Any = None
    ts: Any = None
    dur: Any = None
    id: Any = None
    id2: Any = None
    args: Raw = NO_RAW


class _AnyArguments(Struct):
    args: dict[str, Any] = {}


_ANY_ARGUMENTS = msgspec.json.Decoder(_AnyArguments)


def numeric_arguments(text: Slice) -> dict[str, float]:
    """All arguments of an event that are numbers, by name."""
    try:
        arguments = _ANY_ARGUMENTS.decode(text).args
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return {}
    return {
        name: float(value)
        for name, value in arguments.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
