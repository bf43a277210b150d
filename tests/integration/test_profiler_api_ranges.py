"""`emit_nvtx` and `emit_itt`: what a tool would be told of ops, by stand-ins for its packages."""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from types import ModuleType
from typing import Any

import pytest
import torch

from otel_torchprof import span
from otel_torchprof.autograd_profiler import emit_itt, emit_nvtx, profile, record_function
from tests.support.threads import run_in_threads


class Tool:
    """Takes ranges as a tool does: in the order of each thread."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str | None]] = []  # thread and text, None = the innermost ended

    def push(self, text: str) -> None:
        self.told.append((threading.get_ident(), text))

    def pop(self) -> None:
        self.told.append((threading.get_ident(), None))

    def nesting(self, thread: int | None = None) -> list[tuple[str, str | None]]:
        """Each range with the one around it; fails unless all have ended, and only those that began."""
        found: list[tuple[str, str | None]] = []
        open_ranges: list[str] = []
        for of_thread, text in self.told:
            if of_thread != (thread or threading.get_ident()):
                continue
            if text is None:
                open_ranges.pop()
            else:
                found.append((text, open_ranges[-1] if open_ranges else None))
                open_ranges.append(text)
        assert open_ranges == []
        return found


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Tool:
    """Stands behind both packages."""
    tool = Tool()
    nvtx: Any = ModuleType("nvtx")
    nvtx.push_range, nvtx.pop_range = tool.push, tool.pop
    ittapi: Any = ModuleType("ittapi")
    ittapi.domain = lambda name: f"domain {name}"
    ittapi.string_handle = lambda text: ("handle", text)

    def task_begin(domain: str, handle: tuple[str, str]) -> None:
        assert (domain, handle[0]) == ("domain PyTorch", "handle")
        tool.push(handle[1])

    def task_end(domain: str) -> None:
        assert domain == "domain PyTorch"
        tool.pop()

    ittapi.task_begin, ittapi.task_end = task_begin, task_end
    monkeypatch.setitem(sys.modules, "nvtx", nvtx)
    monkeypatch.setitem(sys.modules, "ittapi", ittapi)
    return tool


@pytest.fixture(params=[emit_nvtx, emit_itt])
def emit(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_ops_and_scopes_are_ranges(emit: Any, tool: Tool) -> None:
    values = torch.ones(2)
    with torch.no_grad(), emit(), record_function("outer"), span("inner"):
        values.clone()
    values.cos()
    found = tool.nesting()
    assert found[:3] == [("outer", None), ("inner", "outer"), ("aten::clone", "inner")]
    assert {parent for _text, parent in found[3:]} == {"aten::clone"}


def test_sizes_are_in_the_text_when_asked_for(emit: Any, tool: Tool) -> None:
    left, right = torch.ones(2, 3), torch.ones(3, 4)
    with torch.no_grad(), emit(record_shapes=True):
        torch.mm(left, right)
        torch.cat([left, left])
        left.sum(1)
    texts = [text for text, parent in tool.nesting() if parent is None]
    assert texts == [
        "aten::mm, sizes = [[2, 3], [3, 4]]",
        "aten::cat, sizes = [[2, 3], [2, 3], []]",
        "aten::sum, sizes = [[2, 3], [], [], []]",
    ]


def test_numbers_join_backward_to_forward(emit: Any, tool: Tool) -> None:
    weight = torch.ones(2, 2, requires_grad=True)
    with emit():
        torch.mm(weight, weight).sum().backward()
    texts = [text for text, _parent in tool.nesting()]
    (forward,) = (text for text in texts if text.startswith("aten::mm, seq"))
    number = forward.removeprefix("aten::mm, seq = ")
    assert f"MmBackward0, stashed seq = {number}" in texts
    assert all(re.fullmatch(r"[^,]+(, (stashed )?seq = \d+)?", text) for text in texts)


def test_ops_of_all_threads_are_ranges_there(emit: Any, tool: Tool) -> None:
    values = torch.ones(2)
    threads: list[int] = []
    both_are_there = threading.Barrier(2)

    def work() -> None:
        both_are_there.wait(60)
        threads.append(threading.get_ident())
        with torch.no_grad():  # of each thread its own
            values.cos()
        both_are_there.wait(60)

    with emit():
        run_in_threads(work, work)
    assert [tool.nesting(thread) for thread in threads] == [[("aten::cos", None)]] * 2


def test_what_ends_on_another_thread_ends_with_the_next_of_its_own(emit: Any, tool: Tool) -> None:
    values = torch.ones(2)
    with torch.no_grad(), emit():
        moved = span("moved")
        moved.__enter__()
        run_in_threads(lambda: moved.__exit__(None, None, None))
        values.cos()
    assert tool.nesting() == [("moved", None), ("aten::cos", None)]


def test_what_is_open_at_the_end_ends_there(emit: Any, tool: Tool) -> None:
    with span("before"):
        emitting = emit()
        emitting.__enter__()
        inside = span("inside")
        inside.__enter__()
        emitting.__exit__(None, None, None)
        inside.__exit__(None, None, None)
    assert tool.nesting() == [("inside", None)]


def test_a_tool_that_fails_harms_nothing(emit: Any, tool: Tool, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_args: object) -> None:
        raise RuntimeError("no tool")

    monkeypatch.setattr(tool, "push", fails)
    sys.modules["nvtx"].push_range = fails  # type: ignore[attr-defined]
    with emit():
        assert torch.ones(2).cos().shape == (2,)
        with pytest.raises(IndexError):
            torch.ones(2)[5]
    with emit(), pytest.raises(KeyError, match="own"):
        raise KeyError("own")


def test_recording_goes_on_beside_it(emit: Any, tool: Tool) -> None:
    values = torch.ones(2)
    with torch.no_grad(), profile() as prof, emit():
        values.cos()
    assert [event.name for event in prof.function_events or ()] == ["aten::cos"]
    assert tool.nesting() == [("aten::cos", None)]


def test_torchs_fast_paths_know_of_it(emit: Any, tool: Tool) -> None:
    assert not torch.autograd.profiler._is_profiler_enabled
    with emit():
        assert torch.autograd.profiler._is_profiler_enabled
    assert not torch.autograd.profiler._is_profiler_enabled


def test_one_at_a_time(emit: Any, tool: Tool) -> None:
    with emit() as first:
        with pytest.raises(RuntimeError, match="annotation context manager is not reentrant"):
            first.__enter__()
        with pytest.raises(RuntimeError, match="ranges are drawn already"):
            emit().__enter__()
    with emit():  # and it can be done again
        torch.ones(2)
    assert tool.nesting()


def test_switched_off_it_does_nothing(emit: Any, tool: Tool) -> None:
    with emit(enabled=False):
        torch.ones(2)
    assert tool.told == []


def test_without_the_package_it_warns_and_does_nothing(emit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setitem(sys.modules, "ittapi", None)
    with (
        pytest.warns(
            UserWarning, match=r"^no (NVTX|ITT) ranges are emitted: install the package (nvtx|ittapi)$"
        ),
        emit(),
    ):
        assert torch.equal(torch.ones(2), torch.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        emit(enabled=False).__enter__()


def test_a_forked_child_draws_nothing(emit: Any, tool: Tool) -> None:
    with emit():
        child = os.fork()
        if child == 0:
            before = len(tool.told)
            torch.ones(2)
            os._exit(len(tool.told) - before)
    assert os.waitpid(child, 0)[1] == 0
