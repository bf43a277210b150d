"""What memory is used for in real training steps: beside the model, the optimizer and torch's own profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.profiler._memory_profiler import _CATEGORY_TO_INDEX, MemoryProfileTimeline
from torch.profiler._memory_profiler import Category as TorchCategory

from otel_torchprof.analysis.memory import Action, Category, MemoryProfile
from otel_torchprof.profiler import profile
from otel_torchprof.recording import Recording, TensorRole
from tests.support.memory_models import Training, cnn, in_use, mlp, storage_bytes, times_of, transformer

MODELS = (mlp, cnn, transformer)


def record(body: Callable[[profile], object], **options: Any) -> Recording:
    with profile(**{"record_shapes": True, "profile_memory": True, **options}) as prof:
        body(prof)
    return prof.recording


def train(training: Training, count: int) -> None:
    for _ in range(count):
        training.step()


def steps(training: Training, count: int) -> Callable[[profile], None]:
    def run(prof: profile) -> None:
        for _ in range(count):
            training.step()
            prof.step()

    return run


@pytest.mark.parametrize("make", MODELS)
def test_parameters_gradients_and_optimizer_state_are_exact(make: Callable[[], Training]) -> None:
    training = make()
    recording = record(steps(training, 3))
    (cpu,) = MemoryProfile(recording).devices
    for updated in times_of(recording, "updated"):
        found = in_use(cpu, updated)
        assert found[Category.PARAMETER] == training.parameter_bytes()
        assert found[Category.GRADIENT] == training.parameter_bytes()
        assert found[Category.OPTIMIZER_STATE] == training.state_bytes()
    # zero_grad() freed the gradients before the next step.
    last = in_use(cpu, recording.end_ns)
    assert last[Category.GRADIENT] == 0
    assert last[Category.PARAMETER] == training.parameter_bytes()
    assert last[Category.OPTIMIZER_STATE] == training.state_bytes()


@pytest.mark.parametrize("make", MODELS)
def test_less_than_a_hundredth_of_the_peak_is_unknown(make: Callable[[], Training]) -> None:
    (cpu,) = MemoryProfile(record(steps(make(), 2))).devices
    assert cpu.peak.total_bytes > 0
    assert cpu.peak.by_category[Category.UNKNOWN] < cpu.peak.total_bytes / 100
    assert cpu.peak.by_category[Category.ACTIVATION] > 0
    assert sum(cpu.peak.by_category.values()) == cpu.peak.total_bytes
    assert sum(share.size_bytes for share in cpu.peak.by_operator) == cpu.peak.total_bytes


@pytest.mark.parametrize("make", MODELS)
def test_torch_finds_the_same_parameters_gradients_and_state(make: Callable[[], Training]) -> None:
    training = make()
    theirs = torch_maxima(lambda: train(training, 3))
    (cpu,) = MemoryProfile(record(steps(make(), 3))).devices
    ours = cpu.timeline.bytes_by_category.max(axis=0)
    for category in TorchCategory:
        assert Category[category.name] == _CATEGORY_TO_INDEX[category]
    for category in (TorchCategory.GRADIENT, TorchCategory.OPTIMIZER_STATE):
        assert ours[_CATEGORY_TO_INDEX[category]] == theirs[category], category
    # It takes working memory of optimizers that update many tensors at once for parameters.
    assert ours[Category.PARAMETER] == training.parameter_bytes() <= theirs[TorchCategory.PARAMETER]
    assert ours[Category.ACTIVATION] == pytest.approx(theirs[TorchCategory.ACTIVATION], rel=0.15)


def test_a_model_that_the_recording_does_not_use_is_left_out() -> None:
    used, idle = mlp(), cnn()
    idle.step()
    recording = record(steps(used, 1))
    (cpu,) = MemoryProfile(recording).devices
    assert len(recording.tensor_roles) > 0
    assert in_use(cpu, recording.end_ns)[Category.PARAMETER] == used.parameter_bytes()
    assert idle.parameter_bytes() > 0


def test_inputs_are_what_no_parameter_contributed_to() -> None:
    model = nn.Linear(8, 8)
    kept: list[Tensor] = []

    def body(_prof: profile) -> None:
        batch = torch.randn(1000, 8)
        scaled = batch * 2
        hidden = model(scaled)
        kept.extend([batch, scaled, hidden, hidden.relu()])

    recording = record(body)
    (cpu,) = MemoryProfile(recording).devices
    found = in_use(cpu, recording.end_ns)
    assert found[Category.INPUT] == 2 * 32_000
    assert found[Category.ACTIVATION] == 2 * 32_000
    assert found[Category.PARAMETER] == storage_bytes(model.parameters())


def test_a_cache_that_model_values_are_written_into_becomes_an_activation() -> None:
    model = nn.Linear(8, 8)
    kept: list[Tensor] = []

    def body(_prof: profile) -> None:
        cache = torch.zeros(1000, 8)
        with torch.no_grad(), torch.profiler.record_function("before"):
            hidden = model(torch.randn(1000, 8))
        with torch.no_grad():
            cache.copy_(hidden)
        kept.append(cache)
        del hidden

    recording = record(body)
    (cpu,) = MemoryProfile(recording).devices
    (before,) = times_of(recording, "before")
    assert in_use(cpu, before)[Category.INPUT] == 32_000
    after = in_use(cpu, recording.end_ns)
    assert (after[Category.INPUT], after[Category.ACTIVATION]) == (0, 32_000)


def test_what_one_operator_needs_for_itself_is_temporary() -> None:
    recording = record(lambda _prof: torch.randn(1000, 8).std(dim=0))
    (cpu,) = MemoryProfile(recording).devices
    assert cpu.timeline.bytes_by_category[:, Category.UNKNOWN].max() == 0
    training = mlp()
    recording = record(steps(training, 2))
    (cpu,) = MemoryProfile(recording).devices
    # Working memory of the optimizer is gone with its step.
    assert cpu.timeline.bytes_by_category[:, Category.TEMPORARY].max() > 0
    assert in_use(cpu, recording.end_ns)[Category.TEMPORARY] == 0


def test_norms_of_gradients_are_details_of_the_backward_pass() -> None:
    model = nn.Linear(100, 100)
    model(torch.randn(4, 100)).sum().backward()
    kept: list[Tensor] = []
    recording = record(lambda _prof: kept.append(model.weight.grad * 2))
    (cpu,) = MemoryProfile(recording).devices
    found = in_use(cpu, recording.end_ns)
    assert found[Category.AUTOGRAD_DETAIL] == 40_000
    assert found[Category.GRADIENT] == storage_bytes(model.parameters())


def test_gradients_of_leaves_without_an_optimizer_are_gradients() -> None:
    leaf = torch.randn(1000, requires_grad=True)

    def body(_prof: profile) -> None:
        for _ in range(2):
            (leaf * 3).sum().backward()

    recording = record(body)
    (cpu,) = MemoryProfile(recording).devices
    assert in_use(cpu, recording.end_ns)[Category.GRADIENT] == 4000


def test_a_new_version_ends_the_old_one_first() -> None:
    training = mlp()
    recording = record(steps(training, 2))
    (cpu,) = MemoryProfile(recording).devices
    events = cpu.events
    versions = np.flatnonzero(events.action == Action.INCREMENT_VERSION).reshape(-1, 2)
    assert len(versions) >= 2 * 6  # the optimizer wrote into each parameter, twice
    assert np.all(versions[:, 0] + 1 == versions[:, 1])
    assert np.all(events.block[versions[:, 0]] == events.block[versions[:, 1]])
    assert np.all(events.delta_bytes[versions[:, 0]] < 0)
    assert np.all(events.delta_bytes[versions].sum(axis=1) == 0)


def test_blocks_have_the_names_that_the_program_gives_them() -> None:
    training = mlp()
    recording = record(steps(training, 2))
    profiled = MemoryProfile(recording)
    names = {name for name in profiled.names if name}
    assert {"0.weight", "2.bias", "0.weight.exp_avg", "4.weight.exp_avg_sq"} <= names
    # Other models that are alive in the process may bring their buffers.
    roles = set(recording.tensor_roles["role"].tolist())
    assert roles >= {TensorRole.PARAMETER, TensorRole.GRADIENT, TensorRole.OPTIMIZER_STATE}
    largest = max(profiled.devices[0].peak.largest, key=lambda block: block.size_bytes)
    assert largest.size_bytes == 256 * 256 * 4


def test_a_model_made_while_recording_is_known() -> None:
    made: list[Training] = []

    def body(prof: profile) -> None:
        made.append(cnn())
        steps(made[0], 2)(prof)

    recording = record(body)
    (cpu,) = MemoryProfile(recording).devices
    found = in_use(cpu, times_of(recording, "updated")[-1])
    assert found[Category.PARAMETER] == made[0].parameter_bytes()
    assert found[Category.GRADIENT] == made[0].parameter_bytes()
    assert found[Category.OPTIMIZER_STATE] == made[0].state_bytes()


def test_sparse_gradients_and_odd_parameters_do_no_harm() -> None:
    embedding = nn.Embedding(100, 16, sparse=True)
    lazy = nn.LazyLinear(4)
    optimizer = torch.optim.SGD([*embedding.parameters(), nn.Parameter(torch.ones(3))], lr=0.1)
    meta = nn.Linear(4, 4, device="meta")

    def body(_prof: profile) -> None:
        embedding(torch.tensor([1, 2, 3])).sum().backward()
        optimizer.step()

    recording = record(body)
    (cpu,) = MemoryProfile(recording).devices
    assert recording.metadata["sources"]["tensor_roles"] == "on"
    found = in_use(cpu, recording.end_ns)
    assert found[Category.PARAMETER] == storage_bytes(embedding.parameters())
    assert found[Category.GRADIENT] >= 3 * 16 * 4 + 3 * 8
    assert lazy.has_uninitialized_params()
    assert meta.weight.is_meta


def test_growth_finds_the_leak_and_nothing_else() -> None:
    training = mlp()
    leaked: list[Tensor] = []
    cache: dict[int, Tensor] = {}

    def body(prof: profile) -> None:
        for number in range(8):
            training.step()
            cache.setdefault(number % 2, torch.ones(1000))  # fills up, and stays
            with torch.profiler.record_function("metrics"):
                leaked.append(torch.full((500,), 1.0))
            prof.step()

    (cpu,) = MemoryProfile(record(body)).devices
    (site,) = cpu.growth.sites
    assert (site.operator, site.bytes_per_step) == ("aten::full", 2000)
    assert "metrics" in site.names
    assert site.last_bytes - site.first_bytes == (cpu.growth.steps - 1) * 2000
    assert cpu.growth.bytes_per_step == pytest.approx(2000, rel=0.5)


def test_a_loss_that_is_kept_leaks_its_graph() -> None:
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
    losses: list[Tensor] = []

    def body(prof: profile) -> None:
        for _ in range(6):
            losses.append(model(torch.randn(64, 32)).sum())  # and never backward() or item()
            prof.step()

    (cpu,) = MemoryProfile(record(body)).devices
    assert len(cpu.growth.sites) >= 3
    assert sum(site.bytes_per_step for site in cpu.growth.sites) > 64 * 64 * 4


def torch_maxima(body: Callable[[], object]) -> dict[TorchCategory, int]:
    """The most bytes in use of each category while `body` runs, as torch's own profile has it."""
    with torch.profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        body()
    theirs = MemoryProfileTimeline(prof._memory_profile())
    _times, sizes = theirs._coalesce_timeline("cpu")
    return {
        category: max(row[_CATEGORY_TO_INDEX[category] + 1] for row in sizes) for category in TorchCategory
    }


def test_torchs_own_profile_of_memory_is_unharmed() -> None:
    training = mlp()
    alone = torch_maxima(lambda: train(training, 2))
    training = mlp()
    beside = torch_maxima(lambda: record(lambda _prof: train(training, 2)))
    for category in (TorchCategory.PARAMETER, TorchCategory.GRADIENT, TorchCategory.OPTIMIZER_STATE):
        assert beside[category] == alone[category]
