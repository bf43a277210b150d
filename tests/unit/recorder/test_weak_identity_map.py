"""`WeakIdentityMap` beside a plain dict by address, and what becomes of entries without their object."""

from __future__ import annotations

import gc
import threading

from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof.recorder.weak_identity_map import WeakIdentityMap


class Equal:
    """Equal to all of its kind, and so without a hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equal)


@given(st.lists(st.tuples(st.sampled_from(["set", "pop", "drop"]), st.integers(0, 4), st.integers())))
def test_it_holds_what_a_dict_by_address_would(operations: list[tuple[str, int, int]]) -> None:
    owners = [Equal() for _ in range(5)]
    mapping: WeakIdentityMap[int] = WeakIdentityMap()
    model: dict[int, int] = {}
    for operation, place, value in operations:
        if operation == "set":
            mapping[owners[place]] = value
            model[place] = value
        elif operation == "pop":
            assert mapping.pop(owners[place]) == model.pop(place, None)
        else:
            owners[place] = Equal()  # the one before is gone
            model.pop(place, None)
        assert len(mapping) == len(model)
        assert [mapping.get(owner) for owner in owners] == [model.get(place) for place in range(5)]
        assert [owner in mapping for owner in owners] == [place in model for place in range(5)]
        assert sorted(mapping.values()) == sorted(model.values())
        assert sorted(value for _owner, value in mapping.items()) == sorted(model.values())
    mapping.clear()
    assert len(mapping) == 0


def test_an_object_in_a_cycle_takes_its_entry_along() -> None:
    mapping: WeakIdentityMap[str] = WeakIdentityMap()
    owner = Equal()
    owner.itself = owner  # type: ignore[attr-defined]
    mapping[owner] = "value"
    del owner
    gc.collect()
    assert len(mapping) == 0


def test_objects_may_go_while_all_are_looked_at() -> None:
    mapping: WeakIdentityMap[int] = WeakIdentityMap()
    owners = [Equal() for _ in range(100)]
    for number, owner in enumerate(owners):
        mapping[owner] = number
    seen = 0
    for _owner, _value in mapping.items():
        owners.clear()
        seen += 1
    assert seen == 100


def test_threads_may_add_and_let_go_at_once() -> None:
    mapping: WeakIdentityMap[int] = WeakIdentityMap()

    def churn() -> None:
        for number in range(2000):
            owner = Equal()
            mapping[owner] = number
            assert mapping.get(owner) == number

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    gc.collect()
    assert len(mapping) == 0
