"""What modules are called by: the paths of `named_modules()`, whatever the program does with them."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,no-untyped-call,no-untyped-def"

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from otel_torchprof.recording import EventFlags
from tests.support.module_calls import (
    EncoderLayer,
    ResNet,
    Transformer,
    hooked,
    images,
    paths_of,
    record_modules,
    tokens,
)


def assert_paths_are_those_of_named_modules(model: nn.Module, *inputs: torch.Tensor) -> None:
    with hooked(model) as expected:
        model(*inputs)
    assert len(expected) > 3
    assert paths_of(record_modules(lambda: model(*inputs))) == expected


def test_a_residual_network() -> None:
    assert_paths_are_those_of_named_modules(ResNet(), images())


def test_a_transformer_whose_layers_stand_in_a_list_of_an_uncalled_module() -> None:
    assert_paths_are_those_of_named_modules(Transformer(), tokens())


def test_torchs_own_transformer() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 2))
    assert_paths_are_those_of_named_modules(model.train(), torch.randn(2, 3, 8))


def test_a_thousand_modules() -> None:
    model = nn.Sequential(*(nn.Sequential(*(nn.Identity() for _ in range(31))) for _ in range(32)))
    assert_paths_are_those_of_named_modules(model, torch.ones(1))


def test_enclosing_calls_are_the_callers() -> None:
    calls = record_modules(lambda: Transformer(layers=1)(tokens()))
    around = {call.path: call.around for call in calls}
    assert around[""] is None
    assert around["encoder.layers.0"] == ""
    assert around["encoder.layers.0.attn"] == "encoder.layers.0"
    assert around["encoder.layers.0.attn.qkv"] == "encoder.layers.0.attn"


def test_a_shared_module_is_called_by_the_path_through_its_caller() -> None:
    shared = nn.Linear(4, 4)

    class Branch(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = shared

        def forward(self, x):
            return self.inner(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right, self.direct = Branch(), Branch(), shared

        def forward(self, x):
            return self.direct(self.right(self.left(x)))

    model = Model()
    for _ in range(2):
        assert [path for _name, path in paths_of(record_modules(lambda: model(torch.ones(4))))] == [
            "", "left", "left.inner", "right", "right.inner", "direct",
        ]  # fmt: skip


def test_a_shared_module_that_is_no_child_of_its_caller_has_its_first_path() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            linear = nn.Linear(4, 4)
            self.first = nn.ModuleList([linear])
            self.second = nn.ModuleList([linear])

        def forward(self, x):
            return self.second[0](x)

    assert paths_of(record_modules(lambda: Model()(torch.ones(4)))) == [("Model", ""), ("Linear", "first.0")]


def test_a_module_that_calls_another_of_the_root_finds_it_through_the_root() -> None:
    class Child(nn.Module):
        def forward(self, x, other):
            return other(x)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = Child()
            self.tools = nn.ModuleDict({"scale": nn.Linear(4, 4)})

        def forward(self, x):
            return self.child(x, self.tools["scale"])

    calls = record_modules(lambda: Model()(torch.ones(4)))
    assert [(call.path, call.around) for call in calls] == [
        ("", None),
        ("child", ""),
        ("tools.scale", "child"),
    ]


def test_forward_hooks_that_call_modules() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[0].register_forward_pre_hook(lambda _module, inputs: (model[1](inputs[0]),))
    model[0].register_forward_hook(lambda _module, _inputs, output: model[1](output))
    calls = record_modules(lambda: model(torch.ones(4)))
    assert [(call.path, call.around) for call in calls] == [
        ("", None), ("0", ""), ("1", "0"), ("1", "0"), ("1", ""),
    ]  # fmt: skip


def test_a_forward_that_calls_itself() -> None:
    class Countdown(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.step = nn.Identity()

        def forward(self, n):
            return self(self.step(n - 1)) if n else n

    model = nn.ModuleDict({"countdown": Countdown()})
    calls = record_modules(lambda: model["countdown"](2))
    assert [(call.name, call.path) for call in calls] == [
        ("Countdown", ""), ("Identity", "step"), ("Countdown", ""), ("Identity", "step"), ("Countdown", ""),
    ]  # fmt: skip


def test_each_outermost_call_has_a_root_of_its_own() -> None:
    generator, discriminator = nn.Sequential(nn.Linear(2, 4)), nn.Sequential(nn.Linear(4, 1), nn.Sigmoid())
    calls = record_modules(lambda: discriminator(generator(torch.ones(2))))
    assert [path for _name, path in paths_of(calls)] == ["", "0", "", "0", "1"]


def test_a_part_that_is_called_on_its_own_is_a_root() -> None:
    model = ResNet()
    calls = record_modules(lambda: (model(images()), model.layer1(torch.ones(1, 4, 8, 8))))
    alone = paths_of(calls)[-15:]
    assert alone[0] == ("Sequential", "")
    assert alone[1] == ("Block", "0")


def test_a_module_that_nothing_holds_has_no_path_until_something_does() -> None:
    loose = nn.Sequential(nn.Linear(4, 4))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = nn.ModuleList()

        def forward(self, x):
            return loose(loose(x))

    model = Model()

    def work() -> None:
        model(torch.ones(4))
        model.held.append(loose)
        model(torch.ones(4))

    assert [path for _name, path in paths_of(record_modules(work))] == [
        "", "", "0", "", "0",
        "", "held.0", "held.0.0", "held.0", "held.0.0",
    ]  # fmt: skip


def test_modules_that_move_are_called_by_where_they_are() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    x = torch.ones(4)

    def work() -> None:
        model(x)
        del model[1]  # what follows moves up
        model(x)
        model[0] = nn.Tanh()
        model(x)

    assert paths_of(record_modules(work)) == [
        ("Sequential", ""), ("Linear", "0"), ("ReLU", "1"), ("Linear", "2"),
        ("Sequential", ""), ("Linear", "0"), ("Linear", "1"),
        ("Sequential", ""), ("Tanh", "0"), ("Linear", "1"),
    ]  # fmt: skip


def test_copies_and_replicas_have_paths_of_their_own() -> None:
    model = ResNet()
    with hooked(model) as expected:
        model(images())
    twin = copy.deepcopy(model)
    assert paths_of(record_modules(lambda: twin(images()))) == expected
    # As DataParallel makes them: new objects at each forward, which share the parameters.
    for _ in range(3):
        replica = copy.copy(model)
        replica._modules = {name: copy.copy(child) for name, child in model._modules.items()}
        assert paths_of(record_modules(lambda replica=replica: replica(images()))) == expected


def test_functional_calls_and_lazy_modules() -> None:
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU())
    x = torch.ones(2, 4)
    calls = record_modules(lambda: (model(x), model(x)))
    assert paths_of(calls) == [
        ("Sequential", ""), ("LazyLinear", "0"), ("ReLU", "1"),
        ("Sequential", ""), ("Linear", "0"), ("ReLU", "1"),
    ]  # fmt: skip
    parameters = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    assert paths_of(record_modules(lambda: functional_call(model, parameters, (x,)))) == [
        ("Sequential", ""), ("Linear", "0"), ("ReLU", "1"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["größe", "層", "with space", "0"])
def test_names_are_kept_as_they_are(name: str) -> None:
    model = nn.ModuleDict({name: nn.ReLU()})

    def forward(x):
        return model[name](x)

    model.forward = forward
    assert paths_of(record_modules(lambda: model(torch.ones(1)))) == [("ModuleDict", ""), ("ReLU", name)]


def test_what_checkpointing_computes_again_keeps_its_path() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(EncoderLayer(8) for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=False)
            return x

    model = Model()
    calls = record_modules(lambda: model(torch.randn(2, 3, 8, requires_grad=True)).sum().backward())
    assert [call.path for call in calls if call.name == "EncoderLayer"] == [
        "layers.0", "layers.1", "layers.1", "layers.0",
    ]  # fmt: skip
    again = [call for call in calls if call.around is None]
    assert [call.path for call in again] == ["", "layers.1", "layers.0"]
    assert {call.path for call in calls if call.around == "layers.1"} == {
        "layers.1.attn", "layers.1.mlp", "layers.1.norm.before", "layers.1.norm.after",
    }  # fmt: skip


def test_the_mode_of_each_call() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout())
    model[1].eval()
    calls = record_modules(lambda: (model(torch.ones(4)), model.eval()(torch.ones(4))))
    training, evaluation = EventFlags.TRAINING, EventFlags.EVALUATION
    assert [call.flags for call in calls] == [training, training, evaluation, *[evaluation] * 3]


def test_threads_have_roots_of_their_own() -> None:
    model = ResNet()
    with hooked(model) as expected:
        model(images())
    inputs = images()

    def work() -> None:
        threads = [threading.Thread(target=model, args=(inputs,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert paths_of(record_modules(work)) == 3 * expected


def test_no_module_is_kept_alive() -> None:
    def work() -> None:
        for _ in range(3):
            model = ResNet()
            model(images())
            references.append(weakref.ref(model))
            references.extend(weakref.ref(module) for module in model.modules())
            del model
            gc.collect()
            assert not any(reference() for reference in references)

    references: list[weakref.ref[nn.Module]] = []
    calls = record_modules(work)
    assert len({call.path for call in calls}) == len(dict(ResNet().named_modules()))


def test_scripted_modules_are_called_by_what_they_were_made_from() -> None:
    model = nn.Sequential(torch.jit.script(nn.Sequential(nn.Linear(4, 4))), nn.ReLU())
    calls = record_modules(lambda: model(torch.ones(4)))
    # What is inside runs in torch's interpreter, which calls no Python.
    assert [(call.name, call.path, call.flags) for call in calls] == [
        ("Sequential", "", EventFlags.TRAINING),
        ("Sequential", "0", EventFlags.TRAINING),
        ("ReLU", "1", EventFlags.TRAINING),
    ]
