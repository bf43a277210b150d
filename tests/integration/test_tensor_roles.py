"""Whose tensors are noted, when modules and optimizers are not as torch's are."""

from __future__ import annotations

import importlib
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module

from otel_torchprof.profiler import profile
from otel_torchprof.recorder import live_objects
from otel_torchprof.recorder.capture import Capture
from otel_torchprof.recorder.capture_options import CaptureOptions
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.sources import tensor_roles
from otel_torchprof.recording import Recording, TensorRole

NOT_NOTED = "what tensors are for was not noted"


def record(**options: Any) -> Recording:
    with profile(profile_memory=True, **options) as prof:
        torch.ones(2)
    return prof.recording


def names_of(recording: Recording, role: TensorRole) -> list[str]:
    roles = recording.tensor_roles
    return sorted({recording.name(int(name)) for name in roles["name"][roles["role"] == role]})


class Equal(nn.Module):
    """All of them are equal."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.register_parameter(name, nn.Parameter(torch.ones(3)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)

    def __hash__(self) -> int:
        return 1


def test_modules_that_are_equal_are_not_the_same() -> None:
    held = [Equal("first"), Equal("second")]
    names = names_of(record(), TensorRole.PARAMETER)
    assert len(held) == 2
    assert {"first", "second"} <= set(names)


@dataclass
class Unhashable(nn.Module):
    """Torch itself cannot list what is in it."""

    size: int

    def __post_init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(self.size))


def test_a_module_that_cannot_be_walked_keeps_no_other_from_being_noted() -> None:
    before = failures.count(NOT_NOTED)
    held = (nn.Sequential(nn.Linear(2, 3, bias=False)), Unhashable(2))
    recording = record()
    assert recording.metadata["sources"]["tensor_roles"] == "on"
    assert "0.weight" in names_of(recording, TensorRole.PARAMETER)
    assert failures.count(NOT_NOTED) > before
    del held


def hooks() -> list[Any]:
    optimizer = importlib.import_module("torch.optim.optimizer")  # which `torch.optim` hides
    return [
        *torch_module._global_parameter_registration_hooks,
        *torch_module._global_buffer_registration_hooks,
        *optimizer._global_optimizer_pre_hooks,
        *optimizer._global_optimizer_post_hooks,
    ]


def test_a_torch_without_one_of_the_hooks_is_left_with_none_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    before = hooks()
    monkeypatch.delattr(torch_module, "register_module_module_registration_hook")
    assert record().metadata["sources"] == {"memory": "on", "tensor_roles": "off: AttributeError"}
    assert hooks() == before


def test_finding_the_modules_is_no_part_of_the_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    found_ns: list[int] = []

    def objects_of(classes: set[type]) -> list[Any]:
        found = live_objects.objects_of(classes)
        found_ns.append(time.time_ns())
        return found

    monkeypatch.setattr(tensor_roles, "objects_of", objects_of)
    capture = Capture(None, CaptureOptions(profile_memory=True, with_stack=True))
    capture.start()
    recording = capture.stop()
    assert found_ns[-1] <= recording.start_ns
    assert len(recording) > 0
    assert found_ns[-1] <= recording.events.start_ns.min()


def noted(recording: Recording, role: TensorRole, addresses: set[int]) -> list[int]:
    """The addresses among these that were noted in that role, in the order of time."""
    rows = recording.tensor_roles[recording.tensor_roles["role"] == role.value]
    in_order = rows[np.argsort(rows["time_ns"], kind="stable")]["address"].tolist()
    return [address for address in in_order if address in addresses]


def storage_of(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage().data_ptr()
    return address


def test_a_parameter_is_noted_where_it_lies_now() -> None:
    model = nn.Linear(4, 4, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    held_by_a_bucket = torch.ones(2, 4, 4)
    alone = torch.ones(4, 4)
    before, bucket, last = storage_of(model.weight), storage_of(held_by_a_bucket), storage_of(alone)
    capture = Capture(None, CaptureOptions(profile_memory=True))
    capture.start()
    for data in (model.weight.data, held_by_a_bucket[0], held_by_a_bucket[1], alone):
        model.weight.data = data
        model(torch.ones(1, 4)).sum().backward()
        optimizer.step()
    recording = capture.stop()
    # When the capture starts, before each step, and when it stops.
    expected = [before, before, bucket, bucket, last, last]
    assert noted(recording, TensorRole.PARAMETER, {before, bucket, last}) == expected
    sizes = recording.tensor_roles[recording.tensor_roles["address"] == bucket]["size_bytes"]
    assert sizes.tolist() == [held_by_a_bucket.nbytes] * 2


def test_gradients_that_are_new_at_every_step_are_noted_at_every_step() -> None:
    model = nn.Linear(4, 4, bias=False)
    optimizer = torch.optim.Adam(model.parameters())
    gradients: list[torch.Tensor] = []
    capture = Capture(None, CaptureOptions(profile_memory=True))
    capture.start()
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(1, 4)).sum().backward()
        assert model.weight.grad is not None
        gradients.append(model.weight.grad)  # kept: the next one lies elsewhere
        optimizer.step()
    recording = capture.stop()
    addresses = [storage_of(gradient) for gradient in gradients]
    assert noted(recording, TensorRole.GRADIENT, set(addresses)) == [*addresses, addresses[-1]]
    state = {key: storage_of(tensor) for key, tensor in optimizer.state[model.weight].items()}
    after_each_step_and_at_the_end = [*state.values()] * 6
    assert noted(recording, TensorRole.OPTIMIZER_STATE, set(state.values())) == after_each_step_and_at_the_end
