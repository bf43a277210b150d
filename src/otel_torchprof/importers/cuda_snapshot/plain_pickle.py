"""Pickles as data: no class, no function, nothing that could run.

Two walls: native code reads every opcode before any object is made, and the unpickler that then makes them
resolves no name.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn

import numpy as np

from otel_torchprof._native import core
from otel_torchprof.errors import UnreadableInputError
from otel_torchprof.importers.input_file import InputFile

_PROTOCOL = 0x80
_PROTOCOLS = range(2, 6)


def is_pickle(head: bytes) -> bool:
    """Whether these are the first bytes of a pickle of protocol 2 to 5."""
    return len(head) >= 2 and head[0] == _PROTOCOL and head[1] in _PROTOCOLS


def read_plain_pickle(file: InputFile) -> Any:
    """What a pickle holds: text, numbers, lists, tuples and dictionaries.

    Raises:
        UnreadableInputError: it names or calls something, needs more memory than the limits allow, or is
            damaged.
    """
    content = file.read()
    why_not = core.why_not_plain_pickle(np.frombuffer(content, np.uint8), file.limits.max_objects_bytes)
    if why_not:
        raise UnreadableInputError(f"{file.path} is a Python pickle that is not read: {why_not}")
    try:
        return _PlainUnpickler(io.BytesIO(content)).load()
    except (pickle.UnpicklingError, ValueError, EOFError, IndexError, TypeError, OverflowError) as error:
        raise UnreadableInputError(f"{file.path} is a damaged Python pickle: {error}") from None


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module_name: str, global_name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"it names {module_name}.{global_name}")

    def persistent_load(self, pid: Any, /) -> NoReturn:
        raise pickle.UnpicklingError("it names an object outside it")
