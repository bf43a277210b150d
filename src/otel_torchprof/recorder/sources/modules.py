"""Calls of `torch.nn.Module`s, with the paths that `named_modules()` gives them.

`nn.Module.__call__` is wrapped while a capture wants modules. Torch's own global hooks would do too, at a
higher price, and with them a compiled model is compiled again when a capture starts or stops: they are among
its guards. Nothing guards `__call__`, and what Dynamo traces of the wrapper is one call of the original.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

from otel_torchprof._native import core
from otel_torchprof.recorder.sources.called_modules import describe_modules
from otel_torchprof.recorder.sources.source import Source, SourceTarget, SourceUnavailable

_ModuleCall = Callable[..., Any]


class ModuleSource(Source):
    """Records the calls of modules of all threads, or those alone that no other call is around."""

    name = "modules"

    def __init__(self, *, outermost_only: bool = False) -> None:
        self._target: SourceTarget | None = None
        self._outermost_only = outermost_only

    def start(self, target: SourceTarget) -> None:
        if not getattr(sys, "_is_gil_enabled", lambda: True)():
            raise SourceUnavailable("this Python has no GIL; use one that has")
        import torch

        graph_task = getattr(torch._C, "_current_graph_task_id", None)
        if graph_task is None or not hasattr(torch.compiler, "is_dynamo_compiling"):
            raise SourceUnavailable(f"torch {torch.__version__} is too old; upgrade to 2.4 or later")
        core.start_modules(target.slot, graph_task, self._outermost_only)
        _wrapper.install(torch.nn.Module, torch.compiler.is_dynamo_compiling)
        self._target = target

    def stop(self) -> None:
        target, self._target = self._target, None
        if target is None:
            return
        called = core.stop_modules(target.slot)
        _wrapper.remove()
        if self._outermost_only:
            return  # a model that serves is described where its modules are recorded
        for metadata in describe_modules(called):
            target.capture.add_metadata(metadata)


class OutermostCallObserver(Protocol):
    """Is told of calls of modules that no other call on the thread is around. Must not raise."""

    def call_begins(self) -> object | None:
        """Called before the call is recorded; what it returns comes back. None = tell no more of it."""

    def call_began(self, call: Any) -> None:
        """Called once an event of the call was begun."""

    def call_ends(self, call: Any) -> None:
        """Called after the call."""


def observe_outermost_calls(module_class: Any, observer: OutermostCallObserver) -> None:
    """Tells `observer`, the only one, of outermost calls; `forget_outermost_calls` ends that."""
    import torch

    global _observer
    _observer = observer
    _wrapper.install(module_class, torch.compiler.is_dynamo_compiling)


def forget_outermost_calls() -> None:
    """Tells nobody any more; calls under way are told of to their end."""
    global _observer
    _observer = None
    _wrapper.remove()


def is_in_module_call() -> bool:
    """Whether the calling thread is inside a call that an observer was told of."""
    return _thread.is_in_call


class _CallWrapper:
    """The wrapper in `nn.Module.__call__`, there while any capture wants it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may start a capture while its thread stops one
        self._wanted = 0
        self._module_class: Any = None

    def install(self, module_class: Any, is_dynamo_compiling: Callable[[], bool]) -> None:
        global _original, _is_dynamo_compiling
        with self._lock:
            self._wanted += 1
            current = module_class.__call__
            # It is there when somebody put it back who had taken it from there.
            if self._wanted > 1 or current is _recorded_call:
                return
            self._module_class, _original, _is_dynamo_compiling = module_class, current, is_dynamo_compiling
            module_class.__call__ = functools.update_wrapper(_recorded_call, current)

    def remove(self) -> None:
        with self._lock:
            self._wanted -= 1
            if self._wanted == 0:
                self._take_out()

    def forget(self) -> None:
        """In the child of a fork: no capture is left."""
        self._lock = threading.RLock()
        if self._wanted:
            self._wanted = 1 if _observer is not None else 0  # which observes on
            core.forget_modules()
            if self._wanted == 0:
                self._take_out()

    def _take_out(self) -> None:
        # Whoever wrapped it since goes on calling ours, which then only passes calls on.
        if self._module_class.__call__ is _recorded_call:
            self._module_class.__call__ = _original


# Globals that stay as they are, no closure: Dynamo would guard its variables by way of `__call__`, and
# compile again when the wrapper has gone.
_original: _ModuleCall
_is_dynamo_compiling: Callable[[], bool]
_begin, _fail, _end = core.begin_module, core.fail_module, core.end_module


class _Thread(threading.local):
    is_in_call = False


_observer: OutermostCallObserver | None = None
_thread = _Thread()


def _recorded_call(self: Any, *args: Any, **kwargs: Any) -> Any:
    # First of all: Dynamo knows the answer, and traces nothing of what follows.
    if _is_dynamo_compiling():
        return _original(self, *args, **kwargs)
    if _observer is not None and not _thread.is_in_call:
        return _observed_call(_observer, self, args, kwargs)
    if not _begin(self):
        return _original(self, *args, **kwargs)
    try:
        return _original(self, *args, **kwargs)
    except Exception as error:
        _fail(self, type(error))
        raise
    finally:
        _end(self)


def _observed_call(observer: OutermostCallObserver, module: Any, args: Any, kwargs: Any) -> Any:
    _thread.is_in_call = True
    call = observer.call_begins()
    has_event = _begin(module)
    if call is not None and has_event:
        observer.call_began(call)
    try:
        return _original(module, *args, **kwargs)
    except Exception as error:
        if has_event:
            _fail(module, type(error))
        raise
    finally:
        if has_event:
            _end(module)
        _thread.is_in_call = False
        if call is not None:
            observer.call_ends(call)


_wrapper = _CallWrapper()
os.register_at_fork(after_in_child=_wrapper.forget)
