"""The redaction hook: asked once for each text, and no reason for anything to fail or to be told."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import Any

import pytest

from otel_torchprof.telemetry import redaction
from otel_torchprof.telemetry.redaction import REDACTED, Redactor

SECRET = "hunter2"


def star_out(text: str) -> str:
    """What the names in these tests stand for."""
    return text.replace(SECRET, "***")


def test_each_text_is_asked_for_once() -> None:
    asked: list[str] = []

    def hook(text: str) -> str:
        asked.append(text)
        return text.upper()

    redactor = Redactor(hook)
    assert [redactor(text) for text in ("a", "b", "a", "a")] == ["A", "B", "A", "A"]
    assert asked == ["a", "b"]
    assert redactor.counts == {}


def test_threads_that_ask_together_ask_once() -> None:
    asked: list[str] = []
    begins = threading.Barrier(4)

    def ask() -> None:
        begins.wait()
        for number in range(100):
            redactor(str(number))

    redactor = Redactor(lambda text: asked.append(text) or text)  # type: ignore[func-returns-value]
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(asked, key=int) == [str(number) for number in range(100)]


def _raises(text: str) -> str:
    raise ValueError(text)


@pytest.mark.parametrize(
    ("hook", "reason", "said"),
    [
        (lambda _text: None, "hook_refused", "returned None"),
        (_raises, "hook_failed", "raised ValueError"),
        (sys.exit, "hook_failed", "raised SystemExit"),
        (len, "hook_failed", "returned int, no str"),
        (f"{__name__}:nowhere", "hook_missing", "cannot be imported (AttributeError)"),
        (f"{__name__}:SECRET", "hook_missing", "cannot be imported (TypeError)"),
        ("no_such_module:f", "hook_missing", "cannot be imported (ModuleNotFoundError)"),
    ],
)
def test_a_text_that_the_hook_has_none_for(
    hook: Any, reason: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    redactor = Redactor(hook)
    assert [redactor(f"{SECRET} {number}") for number in (1, 2, 1)] == [REDACTED] * 3
    assert redactor.counts == {reason: 2}
    (record,) = caplog.records
    assert record.getMessage() == (
        f"otel-torchprof: the redaction hook {said}: such a name or argument is sent as 'redacted' "
        "(logged once)"
    )
    assert record.levelno == (logging.INFO if reason == "hook_refused" else logging.WARNING)
    assert record.exc_info is None


def test_a_hook_by_its_name() -> None:
    assert Redactor(f"{__name__}:star_out")(f"a {SECRET}") == "a ***"


def test_names_of_ours_are_not_asked_for() -> None:
    redactor = Redactor(lambda _text: None)
    assert [redactor(name) for name in ("torch.batch", "ProfilerStep#12")] == [
        "torch.batch",
        "ProfilerStep#12",
    ]
    assert [redactor(name) for name in ("torch.batch 2", "ProfilerStep#x")] == [REDACTED] * 2


def test_halves_of_characters_become_valid() -> None:
    assert Redactor(lambda _text: "\ud800")("a") == "?"


def test_names_without_end_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_MAX_REMEMBERED", 4)
    redactor = Redactor(str.upper)
    assert [redactor(f"a{number}") for number in range(100)] == [f"A{number}" for number in range(100)]
    assert len(redactor._by_text) <= 4


def test_a_forked_child_asks_though_another_thread_was_asking() -> None:
    asking, done = threading.Event(), threading.Event()

    def hook(text: str) -> str:
        if text == "slow":
            asking.set()
            done.wait()
        return text.upper()

    redactor = Redactor(hook)
    thread = threading.Thread(target=redactor, args=("slow",))
    thread.start()
    asking.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if redactor("quick") == "QUICK" else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
