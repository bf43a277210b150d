"""Waiting for devices: only those in use, and never longer than asked."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from otel_torchprof.recorder.device_wait import wait_for_devices


def nobody(_thread_id: int) -> None:
    """Whom nobody asks which thread it was."""


@pytest.fixture
def waited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Three devices of which the process uses two; those that were waited for."""
    devices: list[int] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "synchronize", devices.append)
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", lambda device: device != 1, raising=False)
    return devices


@pytest.fixture
def _hang(monkeypatch: pytest.MonkeyPatch, waited: list[int]) -> Iterator[None]:
    """A device that is not done before the test is."""
    is_over = threading.Event()
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: is_over.wait())
    yield
    is_over.set()


def test_devices_in_use_are_waited_for(waited: list[int]) -> None:
    assert wait_for_devices(60, nobody)
    assert waited == [0, 2]


def test_the_thread_that_waits_is_told_before_it_does(
    waited: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    waiting: list[int] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: waiting.append(threading.get_native_id()))

    def tell(thread_id: int) -> None:
        assert waiting == []
        told.append(thread_id)

    assert wait_for_devices(60, tell)
    assert waiting == told * 2
    assert told != [threading.get_native_id()]
    assert waited == []


def test_without_cuda_there_is_nothing_to_wait_for(
    waited: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert wait_for_devices(60, nobody)
    assert waited == []


def test_a_graph_that_is_being_captured_is_left_alone(
    waited: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert not wait_for_devices(60, nobody)
    assert waited == []


@pytest.mark.usefixtures("_hang")
def test_a_device_that_hangs_is_given_up() -> None:
    assert not wait_for_devices(0.01, nobody)
