"""What the categories of Kineto's traces mean, from 2021 to today, whatever device they are of."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple

from otel_torchprof.recording import EventKind

USER_SCOPE = 7  # at::RecordScope::USER_SCOPE
FUNCTION_SCOPE = 0


class Category(NamedTuple):
    """What an event of a category is."""

    kind: EventKind
    on_device: bool = False


_OTHER = Category(EventKind.OTHER)
_KERNEL = Category(EventKind.KERNEL, on_device=True)
_RUNTIME = Category(EventKind.RUNTIME)
_DRIVER = Category(EventKind.DRIVER)
_SYNC = Category(EventKind.SYNC, on_device=True)

# In lower case: 2021's traces write them with capitals.
_CATEGORIES = {
    "cpu_op": Category(EventKind.OP),
    "operator": Category(EventKind.OP),
    "user_annotation": Category(EventKind.USER),
    "python_function": Category(EventKind.PYTHON),
    "overhead": Category(EventKind.OVERHEAD),
    "trace": Category(EventKind.SPAN),
    "kernel": _KERNEL,
    "concurrent_kernel": _KERNEL,
    "mtia_ccp_events": _KERNEL,
    "hpu_op": _KERNEL,
    "gpu_memcpy": Category(EventKind.MEMCPY, on_device=True),
    "memcpy": Category(EventKind.MEMCPY, on_device=True),
    "gpu_memset": Category(EventKind.MEMSET, on_device=True),
    "memset": Category(EventKind.MEMSET, on_device=True),
    "gpu_user_annotation": Category(EventKind.ANNOTATION, on_device=True),
    # What CUPTI counted over a kernel, while it ran alone: as long as Kineto makes it.
    "cuda_profiler_range": Category(EventKind.ANNOTATION, on_device=True),
    "cuda_sync": _SYNC,
    "cuda_event": _SYNC,
    "runtime": _RUNTIME,
    "cuda_runtime": _RUNTIME,
    "hip_runtime": _RUNTIME,
    "mtia_runtime": _RUNTIME,
    "glow_runtime": _RUNTIME,
    "xpu_runtime": _RUNTIME,
    "privateuse1_runtime": _RUNTIME,
    "cuda_driver": _DRIVER,
    "xpu_driver": _DRIVER,
    "privateuse1_driver": _DRIVER,
}


def category_of(text: object) -> Category:
    """What events of a category are; those of unknown ones are of kind OTHER, on a thread."""
    return _CATEGORIES.get(text.lower(), _OTHER) if isinstance(text, str) else _OTHER


class CategoryClass(IntEnum):
    """What decides which arguments of a complete event mean something; as in native code."""

    OTHER = 0
    DEVICE = 1
    CALL = 2
    COUNTERS = 3


def _class_of(category: Category) -> CategoryClass:
    if category.on_device:
        return CategoryClass.DEVICE
    is_call = category.kind in {EventKind.RUNTIME, EventKind.DRIVER}
    return CategoryClass.CALL if is_call else CategoryClass.OTHER


CATEGORY_CLASSES = {
    **{text: _class_of(category) for text, category in _CATEGORIES.items()},
    "cuda_profiler_range": CategoryClass.COUNTERS,
}


def category_class(text: object) -> CategoryClass:
    """The class of events of a category."""
    known = CATEGORY_CLASSES.get(text.lower()) if isinstance(text, str) else None
    return CategoryClass.OTHER if known is None else known


class CategoryTable(dict[Any, int]):
    """Numbers categories by their text, each text once; `kinds` and `on_device` are by that number."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds: list[int] = []
        self.on_device: list[bool] = []

    def __missing__(self, text: Any) -> int:
        category = category_of(text)
        self[text] = number = len(self.kinds)
        self.kinds.append(int(category.kind))
        self.on_device.append(category.on_device)
        return number
