"""What is noted of a tensor: where its memory lies, what it is for, and what the program calls it.

Parameters, gradients and optimizer state are noted at every step, hundreds of tensors in a real model. Nearly
all of them lie where they lay the step before: only for the others a note is made again.
"""

from __future__ import annotations

import itertools
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from otel_torchprof.recording import TENSOR_ROLE_DTYPE, TensorRole

if TYPE_CHECKING:
    from otel_torchprof._native import core

# c10::DeviceType by torch's name of it, of those that have memory of their own.
_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "hip": 6, "xla": 9, "xpu": 12, "mps": 13, "hpu": 15, "mtia": 19}
_OTHER_DEVICE_TYPE = 20  # privateuseone, under whatever name

# A row of TENSOR_ROLE_DTYPE. Its name is a number of ours until the note goes into a recording.
_ROW = struct.Struct("<qQqIiBBH4x")
assert _ROW.size == TENSOR_ROLE_DTYPE.itemsize
Note = bytes


class Label(NamedTuple):
    """What the program calls a tensor, and the number of the model or optimizer that it calls it so in."""

    name: str
    owner: int


class TensorNotes:
    """What the notes of one capture have in common, and the way into it."""

    def __init__(self, torch: ModuleType) -> None:
        # Of these classes the answers are torch's own.
        self.plain_classes = frozenset({torch.Tensor, torch.nn.Parameter})
        self._devices: dict[Any, tuple[int, int]] = {}
        # Numbers in the order of the keys, whichever threads ask for them at once.
        self._name_numbers: defaultdict[tuple[str, str], int] = defaultdict(itertools.count().__next__)
        self._name_ids = np.zeros(0, dtype=np.uint32)  # in the recording, by number

    def write(self, notes: Iterable[Note], capture: core.Capture) -> None:
        """Adds notes to a running capture, with the time of now."""
        rows = np.frombuffer(bytearray().join(notes), dtype=TENSOR_ROLE_DTYPE)
        if len(rows):
            rows["name"] = self._ids_of_names(capture)[rows["name"]]
            capture.add_tensor_roles(rows.view(np.uint8))

    def number_of_name(self, name: str, key: str) -> int:
        """What stands for a name until there is a recording."""
        return self._name_numbers[name, key]

    def number_of_device(self, device: Any) -> tuple[int, int]:
        """Its c10::DeviceType and number."""
        known = self._devices.get(device)
        if known is None:
            index = -1 if device.index is None or device.type == "cpu" else device.index
            known = self._devices[device] = (_DEVICE_TYPES.get(device.type, _OTHER_DEVICE_TYPE), index)
        return known

    def _ids_of_names(self, capture: core.Capture) -> npt.NDArray[np.uint32]:
        """Of all names, by their numbers."""
        ids = self._name_ids
        if len(ids) < len(self._name_numbers):
            names = tuple(self._name_numbers)[len(ids) :]
            new = [
                capture.intern(name.encode(errors="replace"), key.encode(errors="replace"))
                for name, key in names
            ]
            self._name_ids = ids = np.concatenate((ids, np.array(new, dtype=np.uint32)))
        return ids


class Place:
    """A place where the program keeps tensors of one role: `encoder.weight`, or the momentum of it."""

    __slots__ = ("_common", "_last", "_name", "_owner", "_role")

    def __init__(self, common: TensorNotes, role: TensorRole, label: Label, key: str = "") -> None:
        self._common = common
        self._role = role.value
        self._name = common.number_of_name(label.name, key)
        self._owner = label.owner
        # Address and size of the last storage here, and its notes: one value, as threads may come at once.
        self._last: tuple[tuple[int, int], tuple[Note, ...]] = ((0, 0), ())

    def notes_of(self, tensor: Any) -> tuple[Note, ...]:
        """Of the tensor that is there now: one for each of its storages.

        None for tensors without memory, such as fake ones.
        """
        try:
            if type(tensor) not in self._common.plain_classes or tensor.is_sparse:
                return tuple(self._notes_of_parts(tensor))
            storage = tensor.untyped_storage()
            where = (storage.data_ptr(), storage.nbytes())
            last, notes = self._last
            if where != last:
                notes = (self._note(*where, tensor.device),) if where[0] else ()
                self._last = (where, notes)
            return notes
        except (RuntimeError, ValueError, NotImplementedError, TypeError):
            return ()  # it has no storage that could be asked

    def _notes_of_parts(self, tensor: Any) -> Iterator[Note]:
        for part in _parts(tensor):
            if hasattr(part, "fake_mode"):  # a FakeTensor: asked for an address, torch warns the program
                continue
            storage = part.untyped_storage()
            if address := storage.data_ptr():
                yield self._note(address, storage.nbytes(), part.device)

    def _note(self, address: int, size_bytes: int, device: Any) -> Note:
        device_type, index = self._common.number_of_device(device)
        return _ROW.pack(0, address, size_bytes, self._name, index, device_type, self._role, self._owner)


def _parts(tensor: Any) -> Iterable[Any]:
    """The tensors with a storage of their own that hold a tensor's data."""
    if tensor.is_sparse:
        return (tensor._indices(), tensor._values())
    return (getattr(tensor, "_local_tensor", tensor),)
