"""Waits for real DataLoaders: one a batch, whoever loads them, and none that are not ours to count."""
# torch is not type-checked here: its classes are Any.

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from otel_torchprof.recorder.dataloader_waits import DataLoaderWaits
from otel_torchprof.recorder.failures import failures


class Numbers(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(5))


class Failing(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        yield 1
        raise KeyError("no such sample")


@pytest.fixture
def waits() -> Iterator[list[int | None]]:
    """The waits of a program whose every look at the clock is 10 ns later."""
    seen: list[int | None] = []
    clock = itertools.count(step=10)
    measurement = DataLoaderWaits(torch, seen.append, clock_ns=lambda: next(clock))
    measurement.install()
    yield seen
    measurement.remove()


@pytest.mark.parametrize("workers", [0, 2])
def test_each_batch_is_one_wait_and_the_end_is_none(waits: list[int | None], workers: int) -> None:
    batches = list(DataLoader(torch.arange(6), batch_size=2, num_workers=workers))
    assert len(batches) == 3
    assert waits == [10, 10, 10, None]


def test_datasets_that_are_iterated_and_workers_that_persist(waits: list[int | None]) -> None:
    loader = DataLoader(Numbers(), batch_size=2, num_workers=1, persistent_workers=True)
    for _ in range(2):
        assert len(list(loader)) == 3
    assert waits == [10, 10, 10, None] * 2


def test_what_a_dataset_raises_goes_on_to_the_program(waits: list[int | None]) -> None:
    with pytest.raises(KeyError, match="no such sample"):
        list(DataLoader(Failing(), batch_size=1))
    assert waits == [10]


def test_removed_it_leaves_torch_as_it_was() -> None:
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    before = iterator.__next__
    seen: list[int | None] = []
    measurement = DataLoaderWaits(torch, seen.append)
    measurement.install()
    assert iterator.__next__ is not before
    measurement.remove()
    measurement.remove()
    assert iterator.__next__ is before
    list(DataLoader(torch.arange(2)))
    assert seen == []


def test_wrapped_in_turn_it_stays_as_a_call_through(monkeypatch: pytest.MonkeyPatch) -> None:
    iterator = torch.utils.data.dataloader._BaseDataLoaderIter
    monkeypatch.setattr(iterator, "__next__", iterator.__next__)
    seen: list[int | None] = []
    measurement = DataLoaderWaits(torch, seen.append)
    measurement.install()
    ours = iterator.__next__

    def wrapper(loader: object) -> object:
        return ours(loader)

    iterator.__next__ = wrapper
    measurement.remove()
    assert len(list(DataLoader(torch.arange(2)))) == 2
    assert seen == []


def test_a_listener_that_fails_fails_nobody() -> None:
    def fail(wait_ns: int | None) -> None:
        raise RuntimeError("no counting")

    before = failures.count("a wait for a DataLoader was not counted")
    measurement = DataLoaderWaits(torch, fail)
    measurement.install()
    try:
        assert len(list(DataLoader(torch.arange(2)))) == 2
    finally:
        measurement.remove()
    assert failures.count("a wait for a DataLoader was not counted") == before + 3
