"""The objects of some classes that live in the process."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterator
from typing import Any


def subclasses_of(cls: type) -> Iterator[Any]:
    """A class and all below it."""
    yield cls
    subclass: type
    for subclass in type.__subclasses__(cls):
        yield from subclasses_of(subclass)


def objects_of(classes: set[type]) -> list[Any]:
    """Objects of exactly these classes, which are classes written in Python.

    `gc.get_objects()` also hands out tuples that other threads are still building: as long as anybody holds
    such a tuple, `tuple(generator)` fails over there with a SystemError. So its list is only used up within
    one call of C, in which no other thread runs, to see which of the classes have objects at all; and objects
    refer to their class.
    """
    # map() and not a call: the list is made once set() runs. By id: hash() of a class may be somebody's code.
    living = itertools.chain.from_iterable(map(gc.get_objects, (None,)))
    ids = set(map(id, map(type, living)))
    used = {id(cls): cls for cls in classes if id(cls) in ids}
    # type() and not isinstance(), which would run code of lazy proxies.
    return [thing for thing in gc.get_referrers(*used.values()) if id(type(thing)) in used] if used else []
