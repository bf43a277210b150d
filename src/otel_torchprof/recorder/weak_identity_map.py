"""Values by object, where the object may compare or hash as it likes and is not kept alive."""

from __future__ import annotations

import weakref
from typing import Any, Generic, TypeVar

ValueT = TypeVar("ValueT")


class _Key(weakref.ref[object]):
    """A weak reference that knows where its entry is once its object is gone."""

    __slots__ = ("number",)
    number: int


class WeakIdentityMap(Generic[ValueT]):
    """A mapping from objects, compared by identity and held weakly. An entry goes with its object.

    `weakref.WeakKeyDictionary` asks objects for their hash, which a class that defines `__eq__` alone does
    not have, and takes two that are equal for one. Entries may come and go while `items()` or `values()`
    is used: both are copies.
    """

    def __init__(self) -> None:
        entries: dict[int, tuple[_Key, ValueT]] = {}
        self._entries = entries

        def remove(key: weakref.ref[object]) -> None:
            assert isinstance(key, _Key)
            entry = entries.get(key.number)
            # Another object may have got the address meanwhile.
            if entry is not None and entry[0] is key:
                del entries[key.number]

        self._remove = remove

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, owner: object) -> bool:
        return self.get(owner) is not None

    def __setitem__(self, owner: object, value: ValueT) -> None:
        key = _Key(owner, self._remove)
        key.number = id(owner)
        self._entries[key.number] = (key, value)

    def get(self, owner: object) -> ValueT | None:
        """The value of `owner`; None where it has none."""
        entry = self._entries.get(id(owner))
        return None if entry is None or entry[0]() is not owner else entry[1]

    def pop(self, owner: object) -> ValueT | None:
        """Takes out the value of `owner`; None where it has none."""
        value = self.get(owner)
        if value is not None:
            del self._entries[id(owner)]
        return value

    def values(self) -> list[ValueT]:
        """All values."""
        return [value for _key, value in list(self._entries.values())]

    def items(self) -> list[tuple[Any, ValueT]]:
        """All objects that are still there, with their values."""
        alive = [(key(), value) for key, value in list(self._entries.values())]
        return [(owner, value) for owner, value in alive if owner is not None]

    def clear(self) -> None:
        """Takes out everything."""
        self._entries.clear()
