"""What is known of the devices of a recording, as Kineto's traces call it: `name`, `numSms`, ..."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from otel_torchprof.recording import Recording


def device_properties(recording: Recording) -> list[dict[str, Any]]:
    """One object a device, with its number as `id`; of a trace that was read what that said."""
    metadata = recording.metadata
    for holder, name in (
        (metadata.get("kineto"), "deviceProperties"),
        (metadata.get("device"), "properties"),
        (metadata, "device_properties"),
    ):
        devices = holder.get(name) if isinstance(holder, Mapping) else None
        if isinstance(devices, list) and devices:
            return [device for device in devices if isinstance(device, dict)]
    return []
