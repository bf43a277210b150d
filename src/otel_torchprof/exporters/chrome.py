"""Chrome trace JSON as Kineto writes it: for Perfetto, chrome://tracing, HolisticTraceAnalysis and others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from pathlib import Path
from types import MappingProxyType
from typing import Any

from otel_torchprof._native import core
from otel_torchprof.analysis.device_properties import device_properties
from otel_torchprof.analysis.occupancy import kernel_occupancy
from otel_torchprof.exporters.output_file import OutputFile
from otel_torchprof.recording import EventKind, Recording

suffixes = (".json.gz", ".json")

# The member of a recording's metadata that holds what the program added to its traces.
TRACE_METADATA = "trace_metadata"
# Of the options of a recording, those that Kineto's traces name, under its names.
_OPTIONS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
_KINETO_NUMBERS = (
    "cupti_version", "cuda_runtime_version", "cuda_driver_version", "hip_runtime_version",
    "hip_driver_version", "roctracer_version", "trace_id",
)  # fmt: skip
_PROGRAM_NAME = "python"
_MAX_ID = 1 << 63
_NO_MORE: Mapping[str, Any] = MappingProxyType({})


def export(recording: Recording, path: Path) -> dict[str, int]:
    """Writes a trace; `.gz` at the end of the name compresses it. Memory stays bounded, the GIL free.

    Returns:
        Counts of `slices`, `async_events`, `instants`, `flows`, `steps`, `counters`; and `size_bytes`.
    """
    return write_trace(recording, path)


def write_trace(
    recording: Recording,
    path: Path,
    *,
    categories_of_2021: bool = False,
    more_header: Mapping[str, Any] = _NO_MORE,
    left_out: Set[EventKind] = frozenset(),
) -> dict[str, int]:
    """As `export`.

    Args:
        categories_of_2021: gives some events and flows the categories that old readers know.
        more_header: JSON values that stand beside the events too, under names that nothing else has.
        left_out: kinds of events that are not written, nor the links to them; `USER` takes steps along,
            `OTHER` allocations and frees.
    """
    header = json.dumps({**more_header, **trace_header(recording, path.name)}, allow_nan=False)
    with OutputFile(path) as file:
        counts = core.write_chrome(
            recording.native,
            header[1:-1].encode("ascii"),
            process_names(recording),
            categories_of_2021,
            sorted(left_out),
            kernel_occupancy(recording).tobytes(),
            file.write,
        )
    return {**counts, "size_bytes": file.size_bytes}


def trace_header(recording: Recording, trace_name: str) -> dict[str, Any]:
    """What stands beside the events; `baseTimeNanoseconds` follows when they are written.

    Readers leave out whole views where a member is missing, so those they look for are always there.
    """
    metadata = recording.metadata
    kineto = _mapping(metadata.get("kineto"))
    options = _mapping(metadata.get("options"))
    known = {**kineto, **options}
    header: dict[str, Any] = {
        **_mapping(metadata.get(TRACE_METADATA)),
        "schemaVersion": 1,
        "deviceProperties": device_properties(recording),
    }
    header |= {name: kineto[name] for name in _KINETO_NUMBERS if name in kineto}
    header |= {name: int(bool(known[name])) for name in _OPTIONS if name in known}
    header["distributedInfo"] = _distributed(metadata, kineto)
    header["displayTimeUnit"] = "ms"
    header["traceName"] = trace_name
    return header


def process_names(recording: Recording) -> dict[int, bytes]:
    """Names of processes by id; devices are processes too."""
    ids = {track.process_id for track in recording.tracks} | {track.device for track in recording.tracks}
    names = dict.fromkeys(ids, _PROGRAM_NAME)
    for number, name in _mapping(recording.metadata.get("process_names")).items():
        if number.removeprefix("-").isdecimal() and isinstance(name, str):
            names[int(number)] = name
    return {
        number: name.encode("utf-8", "replace") for number, name in names.items() if abs(number) < _MAX_ID
    }


def _distributed(metadata: Mapping[str, Any], kineto: Mapping[str, Any]) -> dict[str, Any]:
    distributed = {"rank": 0, "world_size": 1, **_mapping(kineto.get("distributedInfo"))}
    for name in ("rank", "world_size"):
        if isinstance(metadata.get(name), int):
            distributed[name] = metadata[name]
    return distributed


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
