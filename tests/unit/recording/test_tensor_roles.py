"""Notes of what tensors are for: kept in a file, by time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from otel_torchprof.recording import TENSOR_ROLE_DTYPE, Recording, RecordingBuilder, TensorRole


def roles(builder: RecordingBuilder) -> np.ndarray[tuple[int, ...], np.dtype[np.void]]:
    weight, state = builder.add_name("encoder.weight"), builder.add_name("encoder.weight", "exp_avg")
    records = np.zeros(2, dtype=TENSOR_ROLE_DTYPE)
    records[0] = (20, 0x2000, 512, state, 1, 1, TensorRole.OPTIMIZER_STATE, 3, (0,) * 4)
    records[1] = (10, 0x1000, 256, weight, -1, 0, TensorRole.PARAMETER, 7, (0,) * 4)
    return records


def test_roles_come_back_from_a_file_in_order_of_time(tmp_path: Path) -> None:
    builder = RecordingBuilder()
    builder.add_tensor_roles(roles(builder))
    builder.finish().save(tmp_path / "run.tprof")
    recording = Recording.open(tmp_path / "run.tprof")
    assert recording.problems == {}
    first, second = recording.tensor_roles
    assert (first["time_ns"], first["address"], first["size_bytes"], first["device"]) == (10, 0x1000, 256, -1)
    assert (first["owner"], second["owner"]) == (7, 3)
    assert (first["role"], second["role"]) == (TensorRole.PARAMETER, TensorRole.OPTIMIZER_STATE)
    names = [(recording.name(row["name"]), recording.overload_name(row["name"])) for row in (first, second)]
    assert names == [("encoder.weight", ""), ("encoder.weight", "exp_avg")]


def test_a_role_of_a_name_that_was_not_added_is_refused() -> None:
    records = np.zeros(1, dtype=TENSOR_ROLE_DTYPE)
    records["name"] = 7
    with pytest.raises(ValueError, match="name is no string"):
        RecordingBuilder().add_tensor_roles(records)


def test_a_recording_without_notes_has_an_empty_table() -> None:
    assert len(Recording.empty().tensor_roles) == 0
