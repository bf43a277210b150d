"""Which tensors ops were given: recorded with inputs and memory, as the tensors themselves say."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator,no-untyped-call"

from __future__ import annotations

from typing import Any

import pytest
import torch

from otel_torchprof.recording import InputList, Recording, TensorFlags, TensorIdentity, TensorInput
from tests.support.recorded_ops import ops_of, record

FLOAT_BYTES = 4


def rows_of(recording: Recording, name: str) -> Any:
    """The tensors of the ops of that name, in order."""
    rows = [op.row for op in ops_of(recording) if op.name == name]
    return recording.tensors[[int(event) in rows for event in recording.tensors["event"]]]


def recorded(work: Any) -> Recording:
    return record(work, record_shapes=True, profile_memory=True)


def test_a_tensor_is_told_by_its_storage_and_version() -> None:
    whole = torch.zeros(6)
    view = whole[2:]

    def work() -> None:
        whole.add_(1)
        view.mul_(2)
        whole.sum()

    recording = recorded(work)
    (added,), (multiplied,), (summed,) = (
        rows_of(recording, name)[:1] for name in ("aten::add_", "aten::mul_", "aten::sum")
    )
    storage = whole.untyped_storage()
    for row in (added, multiplied, summed):
        assert int(row["address"]) == storage.data_ptr()
        assert int(row["storage_bytes"]) == storage.nbytes()
        assert (int(row["device"]), int(row["device_type"]), int(row["flags"])) == (-1, 0, 0)
    assert [int(row["version"]) for row in (added, multiplied, summed)] == [0, 1, 2]
    assert int(added["tensor"]) == int(summed["tensor"]) != int(multiplied["tensor"])
    assert len({int(row["storage"]) for row in (added, multiplied, summed)}) == 1
    assert (int(multiplied["storage_offset"]), int(multiplied["elements"])) == (2, 4)
    assert (int(added["storage_offset"]), int(added["elements"])) == (0, 6)


def test_tensors_of_lists_are_told_by_place() -> None:
    parts = [torch.ones(2), torch.ones(3)]
    rows = rows_of(recorded(lambda: torch.cat(parts)), "aten::cat")
    places = [(int(row["argument"]), int(row["item"]), int(row["elements"])) for row in rows]
    assert places == [(0, 0, 2), (0, 1, 3)]
    assert [int(row["address"]) for row in rows] == [part.data_ptr() for part in parts]


def test_tensors_that_require_a_gradient_are_marked() -> None:
    weight, batch = torch.ones(2, 3, requires_grad=True), torch.ones(3)
    rows = rows_of(recorded(lambda: torch.mv(weight, batch)), "aten::mv")
    assert [int(row["flags"]) for row in rows] == [TensorFlags.REQUIRES_GRAD, 0]
    assert [int(row["argument"]) for row in rows] == [0, 1]


def test_tensors_without_version_or_memory() -> None:
    with torch.inference_mode():
        inference = torch.ones(2)
    meta = torch.ones(2, device="meta")

    def work() -> None:
        with torch.inference_mode():
            inference.add(1)
        meta.add(1)

    rows = rows_of(recorded(work), "aten::add")
    first, second = rows[rows["argument"] == 0]  # the number 1 is a tensor too
    assert int(first["version"]) == -1
    assert (int(second["address"]), int(second["storage_bytes"])) == (0, 2 * FLOAT_BYTES)


def test_sparse_and_nested_tensors_do_no_harm() -> None:
    sparse = torch.eye(3).to_sparse()
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])

    def work() -> None:
        sparse.mul(2)
        nested.mul(2)

    recording = recorded(work)
    assert recording.drops == {}
    assert len(rows_of(recording, "aten::mul")) >= 2


def test_inputs_have_the_identity_too() -> None:
    tensor = torch.ones(2)
    recording = recorded(lambda: torch.stack([tensor]).add(tensor))
    row = next(op.row for op in ops_of(recording) if op.name == "aten::stack")
    inputs = recording.inputs(row)
    assert inputs is not None
    tensors = inputs[0]
    assert isinstance(tensors, InputList)
    (item,) = tensors.items
    assert isinstance(item, TensorInput)
    (entry,) = recording.tensors[recording.tensors["event"] == row]
    storage_id = int(entry["storage"])
    assert item.identity == TensorIdentity(
        tensor_id=int(entry["tensor"]),
        storage_id=storage_id,
        storage_address=tensor.data_ptr(),
        storage_offset=0,
        storage_bytes=2 * FLOAT_BYTES,
        version=0,
        device_index=None,
        requires_grad=False,
    )


@pytest.mark.parametrize("option", ["record_shapes", "profile_memory"])
def test_identities_need_both_options(option: str) -> None:
    recording = record(lambda: torch.ones(2).add(1), None, **{option: True})
    assert len(recording.tensors) == 0
    row = next(op.row for op in ops_of(recording) if op.name == "aten::add")
    inputs = recording.inputs(row)
    if inputs is not None:
        assert isinstance(inputs[0], TensorInput)
        assert inputs[0].identity is None


def test_they_are_saved(tmp_path: Any) -> None:
    recording = recorded(lambda: torch.ones(2).add(1))
    recording.save(tmp_path / "saved.tprof")
    again = Recording.open(tmp_path / "saved.tprof")
    assert again.tensors.tolist() == recording.tensors.tolist() != []
    assert again.memory.tobytes() == recording.memory.tobytes() != b""
