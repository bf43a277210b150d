"""Which tensors are parameters, gradients, optimizer state and buffers.

Nothing in an allocation tells what it is for. Modules and optimizers know, so they are asked: when a capture
starts and stops, right before an optimizer steps (its gradients may be freed before the step ends), right
after (its state may be new), and at the boundary of a step in which no optimizer stepped.
"""

from __future__ import annotations

import importlib
import itertools
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.live_objects import objects_of, subclasses_of
from otel_torchprof.recorder.sources.source import Source, SourceTarget
from otel_torchprof.recorder.weak_identity_map import WeakIdentityMap
from otel_torchprof.recording import TENSOR_ROLE_DTYPE, TensorRole

_NOT_NOTED = "what tensors are for was not noted"
# c10::DeviceType by torch's name of it, of those that have memory of their own.
_DEVICE_TYPES = {"cpu": 0, "cuda": 1, "hip": 6, "xla": 9, "xpu": 12, "mps": 13, "hpu": 15, "mtia": 19}
_OTHER_DEVICE_TYPE = 20  # privateuseone, under whatever name

_MAX_OWNER = 0xFFFF
# Fields of TENSOR_ROLE_DTYPE that a note has, in its order.
_FIELDS = ("address", "size_bytes", "device_type", "device", "name", "role", "owner")
Note = tuple[int, ...]
_Columns = npt.NDArray[np.int64]


class _Label(NamedTuple):
    """What the program calls a tensor, and the number of the model or optimizer that it calls it so in."""

    name: str
    owner: int


_Labelled = tuple[_Label, TensorRole, "weakref.ref[Any]"]


class TensorRoles(Source):
    """Notes roles for one capture."""

    name = "tensor_roles"

    def __init__(self) -> None:
        self._target: SourceTarget | None = None
        self._hooks: list[Any] = []
        self._prepared = _columns(())

    def prepare(self) -> None:
        """Finds the modules and optimizers, a walk over all objects, and what their tensors are for."""
        torch = importlib.import_module("torch")
        self._torch = torch
        self._is_compiling: Callable[[], bool] = torch.compiler.is_compiling
        self._devices: dict[Any, tuple[int, int]] = {}
        # Numbers in the order of the keys, whichever threads ask for them at once.
        self._name_numbers: defaultdict[tuple[str, str], int] = defaultdict(itertools.count().__next__)
        self._name_ids = np.zeros(0, dtype=np.int64)  # in the recording, by number
        # By identity: a module or an optimizer may compare and hash as it likes.
        self._modules: WeakIdentityMap[bool] = WeakIdentityMap()
        self._optimizers: WeakIdentityMap[bool] = WeakIdentityMap()
        self._owners: WeakIdentityMap[int] = WeakIdentityMap()
        self._owner_numbers = itertools.count(1)
        self._labelled: list[_Labelled] | None = None
        self._optimizer_stepped = False
        for found, known in zip(_existing(torch), (self._modules, self._optimizers), strict=True):
            for thing in found:
                known[thing] = True
        try:
            self._add_hooks()
        except BaseException:
            self._remove_hooks()
            raise
        with failures.guard(_NOT_NOTED):
            self._prepared = _columns(self._notes_of_everything())

    def start(self, target: SourceTarget) -> None:
        self._target = target
        prepared, self._prepared = self._prepared, _columns(())
        with failures.guard(_NOT_NOTED):
            self._add_columns(prepared)

    def _add_hooks(self) -> None:
        # Not by attribute: `torch.optim` hides its module `optimizer`.
        optimizer = importlib.import_module("torch.optim.optimizer")
        module = importlib.import_module("torch.nn.modules.module")
        for register, hook in (
            (optimizer.register_optimizer_step_pre_hook, self._before_optimizer_step),
            (optimizer.register_optimizer_step_post_hook, self._after_optimizer_step),
            (module.register_module_parameter_registration_hook, self._on_registration),
            (module.register_module_buffer_registration_hook, self._on_registration),
            (module.register_module_module_registration_hook, self._on_registration),
        ):
            self._hooks.append(register(hook))

    def _remove_hooks(self) -> None:
        while self._hooks:
            self._hooks.pop().remove()

    def step_begins(self) -> None:
        if not self._optimizer_stepped:
            self._add(self._gradients_of_modules())
        self._optimizer_stepped = False

    def stop(self) -> None:
        self._remove_hooks()
        if self._target is not None:
            with failures.guard(_NOT_NOTED):
                self._add(self._notes_of_everything())
        self._target = None

    def _before_optimizer_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._is_compiling():
            return
        with failures.guard(_NOT_NOTED):
            self._optimizers[optimizer] = True
            self._optimizer_stepped = True
            self._add(self._notes_of_optimizer(optimizer, with_state=False))

    def _after_optimizer_step(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        if self._is_compiling():
            return
        with failures.guard(_NOT_NOTED):
            self._add(self._state_of(optimizer))

    def _on_registration(self, module: Any, _name: str, _value: Any) -> None:
        if self._is_compiling():
            return
        with failures.guard(_NOT_NOTED):
            self._modules[module] = True
            self._labelled = None

    def _notes_of_everything(self) -> Iterator[Note]:
        yield from self._tensors_of_modules()
        yield from self._gradients_of_modules()
        for optimizer, _known in self._optimizers.items():
            yield from self._notes_of_optimizer(optimizer, with_state=True)

    def _add(self, notes: Iterable[Note]) -> None:
        self._add_columns(_columns(notes))

    def _add_columns(self, columns: _Columns) -> None:
        if self._target is None or not len(columns):
            return
        records = np.zeros(len(columns), dtype=TENSOR_ROLE_DTYPE)
        for place, field in enumerate(_FIELDS):
            records[field] = columns[:, place]
        records["name"] = self._ids_of_names(self._target)[records["name"]]
        self._target.capture.add_tensor_roles(records.view(np.uint8))

    def _tensors_of_modules(self) -> Iterator[Note]:
        for label, role, reference in self._labelled_tensors():
            tensor = reference()
            if tensor is not None:
                yield from self._notes(tensor, role, label)

    def _gradients_of_modules(self) -> Iterator[Note]:
        for label, role, reference in self._labelled_tensors():
            tensor = reference()
            if role is TensorRole.PARAMETER and tensor is not None:
                yield from self._gradient_of(tensor, label)

    def _gradient_of(self, parameter: Any, label: _Label) -> Iterator[Note]:
        # Asking what is no leaf for its gradient makes torch warn.
        gradient = parameter.grad if parameter.is_leaf else None
        if gradient is not None:
            yield from self._notes(gradient, TensorRole.GRADIENT, label)

    def _notes_of_optimizer(self, optimizer: Any, *, with_state: bool) -> Iterator[Note]:
        labels = self._labels()
        for group_number, group in enumerate(optimizer.param_groups):
            for number, parameter in enumerate(group["params"]):
                label = labels.get(id(parameter)) or _Label(
                    f"param_groups[{group_number}].params[{number}]", self._owner(optimizer)
                )
                yield from self._notes(parameter, TensorRole.PARAMETER, label)
                yield from self._gradient_of(parameter, label)
        if with_state:
            yield from self._state_of(optimizer)

    def _state_of(self, optimizer: Any) -> Iterator[Note]:
        labels = self._labels()
        for holder, state in list(optimizer.state.items()):
            own_name = holder if isinstance(holder, str) else ""
            label = labels.get(id(holder)) or _Label(own_name, self._owner(optimizer))
            for key, tensor in _tensors_in(state, self._torch.Tensor):
                yield from self._notes(tensor, TensorRole.OPTIMIZER_STATE, label, key)

    def _labelled_tensors(self) -> list[_Labelled]:
        """Parameters and buffers of all modules, by the path from the outermost module."""
        known = self._labelled
        if known is not None:
            return known
        modules = [module for module, _known in self._modules.items()]
        inner: set[int] = set()
        for module in modules:
            with failures.guard(_NOT_NOTED):  # one that cannot be walked keeps no other from being noted
                inner.update(map(id, module._modules.values()))
        found: list[_Labelled] = []
        for root in (module for module in modules if id(module) not in inner):
            with failures.guard(_NOT_NOTED):
                found += self._tensors_of(root)
        self._labelled = found
        return found

    def _tensors_of(self, root: Any) -> Iterator[_Labelled]:
        owner = self._owner(root)
        for role, named in (
            (TensorRole.PARAMETER, root.named_parameters()),
            (TensorRole.BUFFER, root.named_buffers()),
        ):
            for name, tensor in named:
                yield _Label(name, owner), role, weakref.ref(tensor)

    def _labels(self) -> dict[int, _Label]:
        """Of parameters and buffers, by identity."""
        tensors = ((reference(), label) for label, _role, reference in self._labelled_tensors())
        return {id(tensor): label for tensor, label in tensors if tensor is not None}

    def _owner(self, holder: Any) -> int:
        number = self._owners.get(holder)
        if number is None:
            # Counted apart from the map, which those leave that are gone: their numbers stay theirs.
            number = self._owners[holder] = min(next(self._owner_numbers), _MAX_OWNER)
        return number

    def _notes(self, tensor: Any, role: TensorRole, label: _Label, key: str = "") -> Iterator[Note]:
        """One for each storage of the tensor; none for tensors without memory, such as fake ones."""
        try:
            name = self._name_numbers[label.name, key]
            for part in _parts(tensor):
                if hasattr(part, "fake_mode"):  # a FakeTensor: asked for an address, torch warns the program
                    continue
                storage = part.untyped_storage()
                address = storage.data_ptr()
                if address:
                    device = self._device(part.device)
                    yield address, storage.nbytes(), *device, name, role.value, label.owner
        except (RuntimeError, ValueError, NotImplementedError, TypeError):
            return  # it has no storage that could be asked

    def _device(self, device: Any) -> tuple[int, int]:
        """Its c10::DeviceType and number."""
        known = self._devices.get(device)
        if known is None:
            index = -1 if device.index is None or device.type == "cpu" else device.index
            known = self._devices[device] = (_DEVICE_TYPES.get(device.type, _OTHER_DEVICE_TYPE), index)
        return known

    def _ids_of_names(self, target: SourceTarget) -> npt.NDArray[np.int64]:
        """Of all names, by the numbers that notes have: the first are made before there is a recording."""
        ids = self._name_ids
        if len(ids) < len(self._name_numbers):
            names = tuple(self._name_numbers)[len(ids) :]
            new = [
                target.capture.intern(name.encode(errors="replace"), key.encode(errors="replace"))
                for name, key in names
            ]
            self._name_ids = ids = np.concatenate((ids, np.array(new, dtype=np.int64)))
        return ids


def _columns(notes: Iterable[Note]) -> _Columns:
    return np.fromiter(itertools.chain.from_iterable(notes), dtype=np.int64).reshape(-1, len(_FIELDS))


def _existing(torch: ModuleType) -> tuple[list[Any], list[Any]]:
    """Modules and optimizers that the program has made so far."""
    module_classes = set(subclasses_of(torch.nn.Module))
    optimizer_classes = set(subclasses_of(torch.optim.Optimizer))
    found = objects_of(module_classes | optimizer_classes)
    return (
        [thing for thing in found if type(thing) in module_classes],
        [thing for thing in found if type(thing) not in module_classes],
    )


def _parts(tensor: Any) -> Iterable[Any]:
    """The tensors with a storage of their own that hold a tensor's data."""
    if tensor.is_sparse:
        return (tensor._indices(), tensor._values())
    return (getattr(tensor, "_local_tensor", tensor),)


def _tensors_in(value: Any, tensor_class: type, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, tensor_class):
        yield key, value
    elif isinstance(value, dict):
        for name, item in list(value.items()):
            yield from _tensors_in(item, tensor_class, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _tensors_in(item, tensor_class, f"{key}[{number}]")
