"""Which tensors are parameters, gradients, optimizer state and buffers.

Nothing in an allocation tells what it is for. Modules and optimizers know, so they are asked: when a capture
starts and stops, right before an optimizer steps (its gradients may be freed before the step ends), right
after (its state may be new), and at the boundary of a step in which no optimizer stepped.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.live_objects import objects_of, subclasses_of
from otel_torchprof.recorder.sources.source import Source, SourceTarget
from otel_torchprof.recorder.sources.tensor_notes import Label, Note, Place, TensorNotes
from otel_torchprof.recorder.weak_identity_map import WeakIdentityMap
from otel_torchprof.recording import TensorRole

_NOT_NOTED = "what tensors are for was not noted"
_MAX_OWNER = 0xFFFF


class _Holder:
    """A parameter or buffer of the program, and the places of what belongs to it."""

    __slots__ = ("_common", "_label", "_state", "gradient", "own", "role")

    def __init__(self, common: TensorNotes, role: TensorRole, label: Label) -> None:
        self._common = common
        self._label = label
        self._state: dict[str, Place] = {}
        self.role = role
        self.own = Place(common, role, label)
        self.gradient = Place(common, TensorRole.GRADIENT, label)

    def state(self, key: str) -> Place:
        """Of one piece of optimizer state."""
        place = self._state.get(key)
        if place is None:
            place = self._state[key] = Place(self._common, TensorRole.OPTIMIZER_STATE, self._label, key)
        return place


class TensorRoles(Source):
    """Notes roles for one capture."""

    name = "tensor_roles"

    def __init__(self) -> None:
        self._target: SourceTarget | None = None
        self._hooks: list[Any] = []
        self._prepared: list[Note] = []

    def prepare(self) -> None:
        """Finds the modules and optimizers, a walk over all objects, and what their tensors are for."""
        torch = importlib.import_module("torch")
        self._torch = torch
        self._is_compiling: Callable[[], bool] = torch.compiler.is_compiling
        self._notes = TensorNotes(torch)
        # By identity: a module or an optimizer may compare and hash as it likes.
        self._modules: WeakIdentityMap[bool] = WeakIdentityMap()
        self._optimizers: WeakIdentityMap[bool] = WeakIdentityMap()
        self._owners: WeakIdentityMap[int] = WeakIdentityMap()
        self._owner_numbers = itertools.count(1)
        self._holders: WeakIdentityMap[_Holder] | None = None
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
            self._prepared = self._notes_of_everything()

    def start(self, target: SourceTarget) -> None:
        self._target = target
        prepared, self._prepared = self._prepared, []
        with failures.guard(_NOT_NOTED):
            self._add(prepared)

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
            self._add(self._notes_of_optimizer(optimizer))

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
            self._holders = None

    def _add(self, notes: Iterable[Note]) -> None:
        if self._target is not None:
            self._notes.write(notes, self._target.capture)

    def _notes_of_everything(self) -> list[Note]:
        notes: list[Note] = []
        for tensor, holder in self._known_holders().items():
            notes += holder.own.notes_of(tensor)
        notes += self._gradients_of_modules()
        for optimizer, _known in self._optimizers.items():
            notes += self._notes_of_optimizer(optimizer)
            notes += self._state_of(optimizer)
        return list(dict.fromkeys(notes))  # a parameter that a module and an optimizer hold is one

    def _gradients_of_modules(self) -> Iterator[Note]:
        for tensor, holder in self._known_holders().items():
            if holder.role is TensorRole.PARAMETER:
                yield from _gradient_of(tensor, holder)

    def _notes_of_optimizer(self, optimizer: Any) -> Iterator[Note]:
        """Of its parameters and their gradients."""
        holders = self._known_holders()
        for group_number, group in enumerate(optimizer.param_groups):
            for number, parameter in enumerate(group["params"]):
                holder = holders.get(parameter)
                if holder is None:
                    label = Label(f"param_groups[{group_number}].params[{number}]", self._owner(optimizer))
                    holder = holders[parameter] = _Holder(self._notes, TensorRole.PARAMETER, label)
                yield from holder.own.notes_of(parameter)
                yield from _gradient_of(parameter, holder)

    def _state_of(self, optimizer: Any) -> Iterator[Note]:
        holders = self._known_holders()
        for held_by, state in list(optimizer.state.items()):
            holder = holders.get(held_by)
            if holder is None:
                name = held_by if isinstance(held_by, str) else ""
                label = Label(name, self._owner(optimizer))
                holder = _Holder(self._notes, TensorRole.PARAMETER, label)
            for key, tensor in _tensors_in(state, self._torch.Tensor):
                yield from holder.state(key).notes_of(tensor)

    def _known_holders(self) -> WeakIdentityMap[_Holder]:
        """Parameters and buffers of all modules, by the path from the outermost module."""
        known = self._holders
        if known is not None:
            return known
        modules = [module for module, _known in self._modules.items()]
        inner: set[int] = set()
        for module in modules:
            with failures.guard(_NOT_NOTED):  # one that cannot be walked keeps no other from being noted
                inner.update(map(id, module._modules.values()))
        found: WeakIdentityMap[_Holder] = WeakIdentityMap()
        for root in (module for module in modules if id(module) not in inner):
            with failures.guard(_NOT_NOTED):
                self._find_holders(root, found)
        self._holders = found
        return found

    def _find_holders(self, root: Any, found: WeakIdentityMap[_Holder]) -> None:
        owner = self._owner(root)
        for role, named in (
            (TensorRole.PARAMETER, root.named_parameters()),
            (TensorRole.BUFFER, root.named_buffers()),
        ):
            for name, tensor in named:
                found[tensor] = _Holder(self._notes, role, Label(name, owner))

    def _owner(self, holder: Any) -> int:
        number = self._owners.get(holder)
        if number is None:
            # Counted apart from the map, which those leave that are gone: their numbers stay theirs.
            number = self._owners[holder] = min(next(self._owner_numbers), _MAX_OWNER)
        return number


def _gradient_of(parameter: Any, holder: _Holder) -> tuple[Note, ...]:
    # Asking what is no leaf for its gradient makes torch warn.
    gradient = parameter.grad if parameter.is_leaf else None
    return () if gradient is None else holder.gradient.notes_of(gradient)


def _existing(torch: ModuleType) -> tuple[list[Any], list[Any]]:
    """Modules and optimizers that the program has made so far."""
    module_classes = set(subclasses_of(torch.nn.Module))
    optimizer_classes = set(subclasses_of(torch.optim.Optimizer))
    found = objects_of(module_classes | optimizer_classes)
    return (
        [thing for thing in found if type(thing) in module_classes],
        [thing for thing in found if type(thing) not in module_classes],
    )


def _tensors_in(value: Any, tensor_class: type, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, tensor_class):
        yield key, value
    elif isinstance(value, dict):
        for name, item in list(value.items()):
            yield from _tensors_in(item, tensor_class, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _tensors_in(item, tensor_class, f"{key}[{number}]")
