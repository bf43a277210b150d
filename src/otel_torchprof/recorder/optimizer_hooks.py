"""Hooks in torch that tell the step tracker about backwards, optimizer steps and gradient scalers.

Every wrapper first calls through when torch.compile traces it, so that compiled code stays whole and free of
side effects. Backwards are seen where `torch.autograd.backward` and `grad` hand over to the engine: torch's
compiler knows these two by identity and would not recognise wrappers of them. A wrapper that cannot be taken
out again, because somebody wrapped it in turn, stays as a call through.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from types import ModuleType
from typing import Any
from weakref import WeakSet

from otel_torchprof.recorder.compiler_opt_out import run_outside_compiler
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.live_objects import objects_of, subclasses_of
from otel_torchprof.recorder.steps import StepSource, StepTracker
from otel_torchprof.recorder.weak_identity_map import WeakIdentityMap

_NOT_COUNTED = "a training step was not counted"


class OptimizerHooks:
    """Installs and removes the hooks.

    Args:
        torch: the imported module.
        tracker: told about everything that happens.
    """

    def __init__(self, torch: ModuleType, tracker: StepTracker) -> None:
        self._torch = torch
        self._tracker = tracker
        self._thread = _ThreadState()
        self._patches: list[tuple[Any, str, Any, Any]] = []
        self._step_wrappers: WeakSet[Callable[..., Any]] = WeakSet()
        self._instance_steps: WeakIdentityMap[Callable[..., Any]] = WeakIdentityMap()
        self._scalers: WeakIdentityMap[_Scaler] = WeakIdentityMap()

    def install(self) -> None:
        """Put the hooks in, also into optimizer classes that were used before."""
        torch = self._torch
        optimizer_class = torch.optim.Optimizer
        run_backward = torch.autograd._engine_run_backward
        self._patch(torch.autograd, "_engine_run_backward", self._wrap_backward(run_backward))
        for name in ("__init__", "__setstate__"):  # the latter makes copies and unpickled ones
            self._patch(optimizer_class, name, self._wrap_optimizer_creation(getattr(optimizer_class, name)))
        hook_step = optimizer_class.profile_hook_step
        self._patch(
            optimizer_class,
            "profile_hook_step",
            staticmethod(functools.wraps(hook_step)(lambda step: self._wrap_step(hook_step(step)))),
        )
        used_classes = [
            cls for cls in subclasses_of(optimizer_class) if getattr(vars(cls).get("step"), "hooked", False)
        ]
        for cls in used_classes:
            self._patch(cls, "step", self._wrap_step(cls.step))
        if used_classes:
            self._wrap_replaced_steps()
        scaler_class = torch.amp.GradScaler
        self._patch(scaler_class, "step", self._wrap_scaler_step(scaler_class.step))
        for cls in subclasses_of(scaler_class):
            self._patch_scaler_update(cls)

    def remove(self) -> None:
        """Take the hooks out. Idempotent."""
        for owner, name, original, replacement in reversed(self._patches):
            if vars(owner).get(name) is replacement:
                setattr(owner, name, original)
        self._patches.clear()
        for cls in subclasses_of(self._torch.optim.Optimizer):
            step = vars(cls).get("step")
            if step in self._step_wrappers:
                step.__wrapped__.hooked = True
                cls.step = step.__wrapped__
        for optimizer, original in self._instance_steps.items():
            if vars(optimizer).get("step") in self._step_wrappers:
                optimizer.step = original
        self._instance_steps.clear()

    def _patch(self, owner: Any, name: str, replacement: Any) -> None:
        original = vars(owner)[name]
        setattr(owner, name, replacement)
        self._patches.append((owner, name, original, replacement))

    def _wrap_replaced_steps(self) -> None:
        """Wrap the step() that a learning rate scheduler put into optimizers before now."""
        for optimizer in objects_of(set(subclasses_of(self._torch.optim.Optimizer))):
            step = vars(optimizer).get("step")
            if step is not None:
                optimizer.step = self._wrap_step(step, weakref.ref(optimizer))
                self._instance_steps[optimizer] = step

    def _wrap_backward(self, backward: Callable[..., Any]) -> Callable[..., Any]:
        tracker = self._tracker
        is_compiling = self._torch.compiler.is_compiling
        graph_task_id = self._torch._C._current_graph_task_id

        @functools.wraps(backward)
        def counted_backward(*args: Any, **kwargs: Any) -> Any:
            # Inside another backward (a hook, a checkpoint) the outer one has been counted already.
            if is_compiling() or graph_task_id() != -1:
                return backward(*args, **kwargs)
            tracker.backward_started()
            try:
                return backward(*args, **kwargs)
            finally:
                tracker.release()

        run_outside_compiler(self._torch, counted_backward)
        return counted_backward

    def _wrap_optimizer_creation(self, create: Callable[..., None]) -> Callable[..., None]:
        tracker = self._tracker
        is_compiling = self._torch.compiler.is_compiling

        @functools.wraps(create)
        def announced_creation(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            create(optimizer, *args, **kwargs)
            if not is_compiling():
                with failures.guard(_NOT_COUNTED):
                    tracker.expect(StepSource.OPTIMIZER, optimizer, _parts(optimizer))

        run_outside_compiler(self._torch, announced_creation)
        return announced_creation

    def _wrap_step(
        self, step: Callable[..., Any], instance: Callable[[], Any] | None = None
    ) -> Callable[..., Any]:
        """Wrap `step` outside torch's own record_function around it, so that the boundary lies after it.

        Args:
            step: a class's function, or one that belongs to `instance` and takes no self.
            instance: gives that optimizer.
        """
        tracker = self._tracker
        thread = self._thread
        is_compiling = self._torch.compiler.is_compiling
        graph_task_id = self._torch._C._current_graph_task_id

        @functools.wraps(step)
        def counted_step(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or not tracker.listening:
                return step(*args, **kwargs)
            optimizer = args[0] if instance is None else instance()
            if thread.stepping is not None:
                # super().step(), or an optimizer made of others: the outermost call is the step.
                if optimizer is not thread.stepping:
                    tracker.leave_out(optimizer)
                return step(*args, **kwargs)
            thread.stepping = optimizer
            thread.has_stepped = True
            try:
                result = step(*args, **kwargs)
            finally:
                thread.stepping = None
            with failures.guard(_NOT_COUNTED):
                in_backward = graph_task_id() != -1
                tracker.advance(StepSource.OPTIMIZER, optimizer, parts=_parts(optimizer), hold=in_backward)
            return result

        run_outside_compiler(self._torch, counted_step)
        self._step_wrappers.add(counted_step)
        return counted_step

    def _wrap_scaler_step(self, step: Callable[..., Any]) -> Callable[..., Any]:
        tracker = self._tracker
        thread = self._thread
        is_compiling = self._torch.compiler.is_compiling
        optimizer_class = self._torch.optim.Optimizer

        @functools.wraps(step)
        def announced_step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return step(scaler, optimizer, *args, **kwargs)
            # Before the optimizer steps, so that the boundary comes with update().
            with failures.guard(_NOT_COUNTED):
                if scaler.is_enabled():
                    self._scaler_steps(scaler, optimizer)
            thread.has_stepped = False
            result = step(scaler, optimizer, *args, **kwargs)
            with failures.guard("a skipped step was not counted"):
                # Only steps of torch's own class are seen, and only while somebody listens.
                is_seen = tracker.listening and isinstance(optimizer, optimizer_class)
                known = self._scalers.get(scaler)
                if known is not None and is_seen and not thread.has_stepped:
                    known.has_skipped = True
            return result

        run_outside_compiler(self._torch, announced_step)
        return announced_step

    def _scaler_steps(self, scaler: Any, optimizer: Any) -> None:
        known = self._scalers.get(scaler)
        if known is None:
            known = _Scaler()
            self._scalers[scaler] = known
        requester = known.requesters.get(optimizer)
        if requester is None:
            requester = _ScaledOptimizer()
            known.requesters[optimizer] = requester
        if requester not in known.stepped:
            known.stepped.append(requester)
        if not self._tracker.is_led_by(StepSource.GRAD_SCALER):
            # Others come in with their first update, which may end the same iteration as this one's.
            self._tracker.expect(StepSource.GRAD_SCALER, requester)
        self._patch_scaler_update(type(scaler))

    def _patch_scaler_update(self, cls: Any) -> None:
        update = cls.__dict__.get("update")
        if update is None or any(update is replacement for *_, replacement in self._patches):
            return
        tracker = self._tracker
        thread = self._thread
        is_compiling = self._torch.compiler.is_compiling

        @functools.wraps(update)
        def counted_update(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling() or thread.updating:
                return update(scaler, *args, **kwargs)
            thread.updating = True
            try:
                result = update(scaler, *args, **kwargs)
            finally:
                thread.updating = False
            with failures.guard(_NOT_COUNTED):
                known = self._scalers.get(scaler)
                if known is not None and scaler.is_enabled():
                    if known.has_skipped:
                        tracker.step_skipped()
                    for requester in known.updated():
                        tracker.advance(StepSource.GRAD_SCALER, requester)
            return result

        run_outside_compiler(self._torch, counted_update)
        self._patch(cls, "update", counted_update)


class _ScaledOptimizer:
    """Who takes part in iterations on behalf of an optimizer that a scaler steps; lives as long as both."""


class _Scaler:
    """What a scaler did since its last update.

    A loop updates it once an iteration, or, as frameworks do that know of one optimizer at a time, after the
    step of each optimizer: so its optimizers make the iterations, each with the update that follows its step.
    """

    def __init__(self) -> None:
        self.requesters: WeakIdentityMap[_ScaledOptimizer] = WeakIdentityMap()  # by optimizer
        self.stepped: list[_ScaledOptimizer] = []
        self.has_skipped = False

    def updated(self) -> list[_ScaledOptimizer]:
        """Begin anew after an update; returns who stepped before it."""
        stepped, self.stepped = self.stepped, []
        self.has_skipped = False
        return stepped


class _ThreadState(threading.local):
    """What runs on this thread: the outermost call counts, not the super() calls inside it."""

    stepping: object | None = None
    updating: bool = False
    has_stepped: bool = False  # since a scaler was last asked to


def _parts(optimizer: Any) -> int:
    return max(1, len(optimizer.param_groups))
