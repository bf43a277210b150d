"""Small programs, each with another way to enter and leave frames. They do the same at every run."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

PROGRAMS: dict[str, Callable[[], object]] = {}


def program(function: Callable[[], object]) -> Callable[[], object]:
    PROGRAMS[function.__name__] = function
    return function


@program
def recursion() -> int:
    def fibonacci(n: int) -> int:
        return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

    def is_even(n: int) -> bool:
        return n == 0 or is_odd(n - 1)

    def is_odd(n: int) -> bool:
        return n != 0 and is_even(n - 1)

    return fibonacci(7) + is_even(11)


@program
def generators() -> list[int]:
    def leaves(depth: int) -> Iterator[int]:
        if depth == 0:
            yield len(str(depth))
        else:
            yield from leaves(depth - 1)
            yield from leaves(depth - 1)

    def interleaved() -> Iterator[int]:
        first, second = leaves(2), leaves(2)
        for _ in range(3):
            yield next(first) + next(second)

    return list(interleaved())


@program
def generator_close_and_throw() -> list[object]:
    def patient() -> Generator[int, object, str]:
        sent: list[object] = []
        while True:
            try:
                sent.append((yield len(sent)))
            except ValueError as error:
                sent.append(str(error))
            finally:
                abs(-1)

    started, never_started = patient(), patient()
    next(started)
    started.send("a")
    seen: list[object] = [started.throw(ValueError("b"))]
    never_started.close()
    started.close()
    with contextlib.suppress(KeyError):
        patient().throw(KeyError("c"))
    left_open = patient()
    next(left_open)
    del left_open
    return seen


@program
def coroutines() -> object:
    async def wait(turns: int) -> int:
        for _ in range(turns):
            await asyncio.sleep(0)
        return turns

    async def main() -> object:
        return await asyncio.gather(wait(3), wait(1), wait(2))

    return asyncio.run(main())


@program
def async_generators() -> int:
    async def countdown(n: int) -> AsyncIterator[int]:
        while n:
            yield n
            await asyncio.sleep(0)
            n -= 1

    @contextlib.asynccontextmanager
    async def doubled(n: int) -> AsyncIterator[int]:
        yield 2 * n

    async def main() -> int:
        total = 0
        async with doubled(2) as n:
            async for i in countdown(n):
                total += i
        return total + sum([i async for i in countdown(2)])

    return asyncio.run(main())


@program
def threads() -> list[int]:
    results: list[int] = []

    def first(n: int) -> None:
        results.append(square(n))

    def second(n: int) -> None:
        results.extend(map(square, range(n)))

    def square(n: int) -> int:
        return pow(n, 2)

    for target in (first, second):
        thread = threading.Thread(target=target, args=(3,))
        thread.start()
        thread.join()
    return results


@program
def thread_pool() -> list[str]:
    def shout(text: str) -> str:
        return text.upper()

    with ThreadPoolExecutor(max_workers=1) as pool:
        return list(pool.map(shout, ["a", "b", "c"]))


@program
def exceptions() -> list[str]:
    caught: list[str] = []

    def fails(depth: int) -> None:
        try:
            if depth == 0:
                int("no number")
            fails(depth - 1)
        finally:
            len("")

    def fails_at_once() -> None:
        raise LookupError("at once")

    numbers: list[int] = []
    by_name: dict[str, int] = {}
    actions = (lambda: fails(4), fails_at_once, lambda: numbers.index(1), lambda: by_name["missing"])
    for action in actions:
        try:
            action()
        except (ValueError, LookupError) as error:
            caught.append(type(error).__name__)
    return caught


@program
def decorators() -> int:
    def counted(function: Callable[..., int]) -> Callable[..., int]:
        @functools.wraps(function)
        def wrapper(*args: int, **kwargs: int) -> int:
            return function(*args, **kwargs) + len(args)

        return wrapper

    @counted
    @functools.cache
    @counted
    def add(a: int, b: int = 1) -> int:
        return a + b

    return add(1) + add(1) + add(1, b=2) + functools.partial(add, 3)(4)


@program
def c_callbacks() -> list[object]:
    def by_length(text: str) -> int:
        return len(text)

    words = ["bb", "a", "cccc", "ddd"]
    return [
        sorted(words, key=by_length),
        max(words, key=lambda word: word[0]),
        functools.reduce(lambda a, b: a + b, words),
        re.sub("[bd]", lambda match: match.group().upper(), "abcd"),
        list(filter(lambda word: word.isalpha(), words)),
        sum(by_length(word) for word in words),
    ]


@program
def sys_exit() -> object:
    def leave() -> None:
        try:
            sys.exit(3)
        finally:
            str(3)

    code: object = None
    try:
        leave()
    except SystemExit as stop:
        code = stop.code
    return code


@program
def deep_stack() -> int:
    def descend(n: int) -> int:
        return 0 if n == 0 else 1 + descend(n - 1)

    return descend(900)


@program
def context_managers() -> list[str]:
    order: list[str] = []

    class Noted:
        def __init__(self, name: str) -> None:
            self.name = name

        def __enter__(self) -> Noted:
            order.append(f"+{self.name}")
            return self

        def __exit__(self, *_exception: object) -> bool:
            order.append(f"-{self.name}")
            return self.name == "outer"  # swallows what is raised

    @contextlib.contextmanager
    def noted(name: str) -> Iterator[str]:
        order.append(name)
        try:
            yield name
        finally:
            order.append(name.upper())

    def fail() -> None:
        raise RuntimeError("through all of them")

    with Noted("outer"), noted("a"), contextlib.ExitStack() as stack:
        stack.enter_context(Noted("inner"))
        stack.callback(order.append, "callback")
        fail()
    return order


@program
def comprehensions() -> int:
    def twice(n: int) -> int:
        return 2 * n

    doubled = [twice(n) for n in range(4)]
    by_value = {n: [twice(m) for m in range(n)] for n in doubled}
    return (
        len({twice(n) for n in by_value}) + sum(twice(n) for n in doubled if n) + any(n > 2 for n in doubled)
    )


@program
def class_bodies() -> object:
    class Meta(type):
        def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Meta:
            return super().__new__(mcs, name, bases, {**namespace, "made": len(name)})

    class Base(metaclass=Meta):
        size = abs(-4)

        def __init_subclass__(cls) -> None:
            cls.size += 1

        @property
        def area(self) -> int:
            return pow(self.size, 2)

        @classmethod
        def build(cls) -> Base:
            return cls()

        @staticmethod
        def unit() -> int:
            return 1

    class Derived(Base):
        class Inner:
            unit = min(1, 2)

        @property
        def area(self) -> int:
            return super().area + self.unit() + self.Inner.unit

    return Derived.build().area


@program
def special_methods() -> object:
    class Vector(list[int]):
        def __add__(self, other: Any) -> Vector:  # type: ignore[override]
            return Vector(map(sum, zip(self, other, strict=True)))

        def __getattr__(self, name: str) -> int:
            return getattr(super(), "__len__")() if name == "rank" else 0  # noqa: B009 - a C function

        def __iter__(self) -> Iterator[int]:
            return super().__iter__()

        def __del__(self) -> None:
            self.clear()

    total = Vector([1, 2]) + Vector([3, 4])
    total.append(total.rank)
    return sorted(total), total[0], bool(total)


@program
def made_code() -> object:
    namespace: dict[str, Any] = {}
    for n in range(3):
        # Each goes at once, and the next may come to lie where it lay.
        exec(f"def made_{n}(): return len(str({n}))\nvalue_{n} = made_{n}()", namespace)
        del namespace[f"made_{n}"]
    return eval("[(lambda n: n + 1)(n) for n in range(2)]"), namespace["value_2"]
