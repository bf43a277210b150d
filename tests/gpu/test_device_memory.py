"""What the caching allocator of a GPU gives and takes, as the part of the bridge for CUDA hears it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from otel_torchprof import profile
from otel_torchprof.recording import MemoryFlags, Recording

CUDA = 1  # of c10::DeviceType
SIZE_BYTES = 4 << 20
TOO_MUCH_BYTES = 1 << 50


def on_device(recording: Recording) -> list[dict[str, Any]]:
    rows = [row for row in recording.memory if row["device_type"] == CUDA]
    return [{name: row[name].item() for name in ("address", "size_bytes", "device", "flags")} for row in rows]


def test_allocations_and_frees_are_recorded_with_their_addresses() -> None:
    with profile(device="on", profile_memory=True) as prof:
        x = torch.empty(SIZE_BYTES // 4, device="cuda")
        address = x.data_ptr()
        del x
    rows = on_device(prof.recording)
    own = [(row["size_bytes"], row["flags"], row["device"]) for row in rows if row["address"] == address]
    assert own == [(SIZE_BYTES, 0, 0), (-SIZE_BYTES, int(MemoryFlags.FREE), 0)], (hex(address), rows)


def test_a_request_that_fails_is_recorded() -> None:
    with profile(device="on", profile_memory=True) as prof, pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(TOO_MUCH_BYTES, dtype=torch.uint8, device="cuda")
    rows = on_device(prof.recording)
    failed = [row["size_bytes"] for row in rows if row["flags"] & MemoryFlags.OUT_OF_MEMORY]
    assert failed == [TOO_MUCH_BYTES], rows
