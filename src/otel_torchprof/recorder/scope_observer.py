"""Being told of the scopes that a program marks: `span`, and torch's `record_function`.

The latter is told of by its class, while somebody wants to know: what it runs in torch runs without the GIL.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from otel_torchprof._native import core
from otel_torchprof.recorder.failures import failures

ScopeObserver = Callable[[], None]


def observe_scopes(observer: ScopeObserver) -> None:
    """Calls `observer`, the only one, after each scope has begun, on its thread. It must not raise."""
    global _observer
    _observer = observer
    core.set_span_observer(observer)
    with failures.guard("the requests of record_function scopes are not noted"):
        _install()


def forget_scopes() -> None:
    """Tells nobody any more. Idempotent."""
    global _observer
    _observer = None
    core.set_span_observer(None)
    with failures.guard("the hook in record_function was not taken out"):
        _remove()


def _install() -> None:
    global _original
    scope_class = _scope_class()
    if scope_class is not None and vars(scope_class)["__enter__"] is not _observed_enter:
        _original = scope_class.__enter__
        # torch.jit.script reads the source of what is wrapped.
        scope_class.__enter__ = functools.update_wrapper(_observed_enter, _original)


def _remove() -> None:
    scope_class = _scope_class()
    # Whoever wrapped it since goes on calling ours, which then only passes calls on.
    if scope_class is not None and vars(scope_class)["__enter__"] is _observed_enter:
        scope_class.__enter__ = _original


def _scope_class() -> Any:
    return getattr(sys.modules.get("torch.autograd.profiler"), "record_function", None)


# Globals, no closure: torch.jit.script takes the names that a closure holds for names of the class.
_original: Callable[[Any], Any]
_observer: ScopeObserver | None = None


def _observed_enter(self: Any) -> Any:
    entered = _original(self)
    observer = _observer
    if observer is not None:
        observer()
    return entered
