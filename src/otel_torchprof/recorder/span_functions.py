"""Functions decorated with `span`: of generators and coroutines each stretch that runs is a scope."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator
from types import TracebackType
from typing import Any

from otel_torchprof._native.core import span


def run_in_spans(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """`function` as one of its own kind that runs inside spans.

    Raises:
        TypeError: it is no function.
    """
    if isinstance(function, type) or not callable(function):
        raise TypeError(
            f"span({name!r}) decorates functions, not {function!r}: put it on a method, below @classmethod"
        )
    if inspect.isasyncgenfunction(function):
        return _async_generator_function(function, name)
    if inspect.iscoroutinefunction(function):
        return _coroutine_function(function, name)
    if inspect.isgeneratorfunction(function):
        return _generator_function(function, name)
    return _plain_function(function, name)


def _plain_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with span(name):
            return function(*args, **kwargs)

    return call


def _generator_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def generate(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _Stretches(function(*args, **kwargs), name))

    code = getattr(function, "__code__", None)
    if code is not None and code.co_flags & inspect.CO_ITERABLE_COROUTINE:
        awaitable: Callable[..., Any] = types.coroutine(generate)  # as what it decorates is
        return awaitable
    return generate


def _coroutine_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await _Stretches(function(*args, **kwargs).__await__(), name)

    return run


def _async_generator_function(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    async def generate(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        resume: Callable[..., Any] = inner.__anext__
        arguments: tuple[Any, ...] = ()
        while True:
            # Nothing that was sent, thrown or yielded is kept alive here.
            try:
                yielded = [await _Stretches(resume(*arguments).__await__(), name)]
            except StopAsyncIteration:
                return
            finally:
                arguments = ()
            try:
                sent = yield yielded.pop()
            except GeneratorExit:
                await _Stretches(inner.aclose().__await__(), name)
                raise
            except BaseException as error:
                resume, arguments = inner.athrow, (error,)
            else:
                resume, arguments = inner.asend, (sent,)
                del sent

    return generate


class _Stretches:
    """A suspended generator or coroutine, each resumption of it in a span, for `yield from` and `await`."""

    __slots__ = ("_inner", "_name")

    def __init__(self, inner: Any, name: str) -> None:
        self._inner = inner
        self._name = name

    def __iter__(self) -> _Stretches:
        return self

    __await__ = __iter__

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        with span(self._name):
            return self._inner.send(value)

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: Any = None,
        traceback: TracebackType | None = None,
    ) -> Any:
        # Newer versions of Python warn of more than one argument, but hand over three here.
        if isinstance(kind, BaseException):
            error = kind
        elif isinstance(value, BaseException):
            error = value
        else:
            error = kind() if value is None else kind(value)
        try:
            with span(self._name):
                return self._inner.throw(error if traceback is None else error.with_traceback(traceback))
        finally:
            del error, kind, value  # or what it raises would refer to itself

    def close(self) -> None:
        with span(self._name):
            self._inner.close()
