"""What of a trace's header is kept: an allow-list.

Paths, user and host names, logs, arguments and environments are not on it.
"""

from __future__ import annotations

from typing import Any

from otel_torchprof.importers.chrome.times import MAX_TIME_NS

_PLAIN = frozenset(
    {
        "schemaVersion", "displayTimeUnit", "baseTimeNanoseconds", "trace_id", "record_shapes",
        "profile_memory", "with_stack", "with_flops", "with_modules", "cupti_version",
        "cuda_runtime_version", "cuda_driver_version", "hip_runtime_version", "hip_driver_version",
        "roctracer_version",
    }
)  # fmt: skip
# What `allowed_metadata` looks at.
HEADER_KEYS = _PLAIN | {"deviceProperties", "distributedInfo"}
_DEVICE = frozenset(
    {
        "id", "name", "totalGlobalMem", "computeMajor", "computeMinor", "maxThreadsPerBlock",
        "maxThreadsPerMultiprocessor", "maxThreadsPerMultiProcessor", "regsPerBlock", "regsPerMultiprocessor",
        "warpSize", "sharedMemPerBlock", "sharedMemPerMultiprocessor", "numSms", "sharedMemPerBlockOptin",
        "maxSharedMemoryPerMultiProcessor", "maxBlocksPerMultiprocessor",
    }
)  # fmt: skip
_DISTRIBUTED = frozenset({"backend", "rank", "world_size", "pg_count", "nccl_version"})
_PROCESS_GROUP = frozenset({"pg_name", "pg_desc", "backend_config", "pg_size", "ranks"})
_MAX_TEXT = 256
_MAX_ITEMS = 4096


def base_time_ns(header: dict[str, Any]) -> int:
    """The unix ns that the times of the trace count from; 0 where they are absolute."""
    value = header.get("baseTimeNanoseconds")
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TIME_NS:
        return value
    return 0


def allowed_metadata(header: dict[str, Any]) -> dict[str, Any]:
    """The metadata of the recording: `rank` and `world_size` by our names, the rest under `kineto`."""
    kineto = _allowed(header, _PLAIN)
    if devices := _allowed_items(header.get("deviceProperties"), _DEVICE):
        kineto["deviceProperties"] = devices
    metadata: dict[str, Any] = {}
    distributed = header.get("distributedInfo")
    if isinstance(distributed, dict):
        kept = _allowed(distributed, _DISTRIBUTED)
        metadata.update({key: kept[key] for key in ("rank", "world_size") if isinstance(kept.get(key), int)})
        if groups := _allowed_items(distributed.get("pg_config"), _PROCESS_GROUP):
            kept["pg_config"] = groups
        kineto["distributedInfo"] = kept
    if kineto:
        metadata["kineto"] = kineto
    return metadata


def _allowed_items(items: Any, keys: frozenset[str]) -> list[dict[str, Any]]:
    if not isinstance(items, list):
        return []
    return [_allowed(item, keys) for item in items[:_MAX_ITEMS] if isinstance(item, dict)]


def _allowed(members: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {
        key: kept for key, value in members.items() if key in keys and (kept := _plain(value)) is not None
    }


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return value[:_MAX_TEXT]
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else None
    if isinstance(value, float):
        return value if abs(value) < float("inf") else None
    if isinstance(value, list):
        return [item for item in value[:_MAX_ITEMS] if isinstance(item, int)]
    return None
