"""Inputs of every kind of tensor and argument: no user code runs for them and no tensor is kept."""
# torch is not type-checked here: its classes and decorators are Any.
# mypy: disable-error-code="misc,no-any-return,untyped-decorator,no-untyped-call"

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from otel_torchprof.recording import (
    InputList,
    InputValue,
    NestedTensorInput,
    OtherInput,
    Recording,
    TensorInput,
    UndefinedTensorInput,
)
from tests.support.recorded_ops import ops_of, record


def recorded(work: Callable[[], object]) -> Recording:
    recording = record(work, record_shapes=True)
    assert recording.drops == {}
    return recording


def inputs_of(recording: Recording, name: str) -> list[InputValue]:
    """The inputs of the first op of that name."""
    row = next(op.row for op in ops_of(recording) if op.name == name)
    inputs = recording.inputs(row)
    assert inputs is not None
    return inputs


def inputs_in(work: Callable[[], object], name: str) -> list[InputValue]:
    return inputs_of(recorded(work), name)


def float_tensor(*sizes: int, strides: tuple[int, ...] | None) -> TensorInput:
    return TensorInput("float32", "cpu", sizes, strides)


def test_without_record_shapes_there_are_none() -> None:
    recording = record(lambda: torch.ones(2))
    assert [recording.inputs(op.row) for op in ops_of(recording)] == [None] * len(recording)


def test_complex_numbers() -> None:
    z = torch.ones(2, dtype=torch.complex128)
    inputs = inputs_in(lambda: torch.full((2,), 1.5 - 2j, out=z), "aten::full")
    assert inputs == [InputList((2,), 1), 1.5 - 2j, TensorInput("complex128", "cpu", (2,), (1,))]


def test_foreach_lists() -> None:
    tensors = [torch.ones(n + 1) for n in range(100)]  # tensor lists are never shortened
    inputs = inputs_in(lambda: torch._foreach_mul(tensors, 2.0), "aten::_foreach_mul")
    assert inputs == [InputList(tuple(float_tensor(n + 1, strides=(1,)) for n in range(100)), 100), 2.0]


def test_a_missing_tensor_in_a_list() -> None:
    x = torch.ones(4, 5)
    inputs = inputs_in(lambda: x[:, torch.tensor([0])], "aten::index")
    assert inputs[0] == float_tensor(4, 5, strides=(5, 1))
    assert isinstance(inputs[1], InputList)
    assert inputs[1].items[0] in {None, UndefinedTensorInput()}
    assert inputs[1].items[1] == TensorInput("int64", "cpu", (1,), (1,))


def test_sparse_layouts_have_sizes_and_no_strides() -> None:
    coo = torch.eye(3).to_sparse()
    csr = torch.eye(3).to_sparse_csr()
    assert inputs_in(coo.coalesce, "aten::coalesce") == [float_tensor(3, 3, strides=None)]
    assert inputs_in(lambda: torch.sin(csr), "aten::sin") == [float_tensor(3, 3, strides=None)]


def test_quantized() -> None:
    quantized = torch.quantize_per_tensor(torch.ones(2, 3), 0.1, 0, torch.quint8)
    assert inputs_in(quantized.dequantize, "aten::dequantize") == [
        TensorInput("quint8", "cpu", (2, 3), (3, 1))
    ]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested(layout: torch.layout) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=layout)
    recording = recorded(lambda: torch.sin(nested))
    values = [inputs_of(recording, op.name)[0] for op in ops_of(recording) if op.name == "aten::sin"]
    assert NestedTensorInput("float32", "cpu", 2) in values


def test_vmap_tells_the_sizes_the_function_sees() -> None:
    recording = recorded(lambda: torch.vmap(torch.sin)(torch.ones(7, 2, 3)))
    seen = [recording.inputs(op.row) for op in ops_of(recording) if op.name == "aten::sin"]
    assert [float_tensor(2, 3, strides=(3, 1))] in seen
    assert [float_tensor(7, 2, 3, strides=(6, 3, 1))] in seen


def test_functorch_grad() -> None:
    recording = recorded(lambda: torch.func.grad(lambda x: torch.sin(x).sum())(torch.ones(3)))
    assert [float_tensor(3, strides=(1,))] in [recording.inputs(op.row) for op in ops_of(recording)]


class Asked(torch.Tensor):
    """A subclass that answers questions about its sizes in Python, and counts them."""

    questions = 0

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Asked:
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), dtype=inner.dtype, dispatch_sizes_strides_policy="sizes", dispatch_device=True
        )

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in {
            torch.ops.aten.sym_size.default,
            torch.ops.aten.sym_stride.default,
            torch.ops.prim.device.default,
        }:
            cls.questions += 1
            raise AssertionError("asked")
        return func(*(arg.inner if isinstance(arg, Asked) else arg for arg in args), **(kwargs or {}))


def test_a_subclass_is_not_asked_for_its_sizes() -> None:
    asked = Asked(torch.ones(2, 3))
    recording = recorded(lambda: torch.sin(asked))
    seen = [recording.inputs(op.row) for op in ops_of(recording) if op.name == "aten::sin"]
    assert [NestedTensorInput("float32", "cpu", 2)] in seen
    assert [float_tensor(2, 3, strides=(3, 1))] in seen
    assert Asked.questions == 0


def test_fake_tensors() -> None:
    def work() -> None:
        with FakeTensorMode():
            torch.sin(torch.empty(2, 3))

    recording = recorded(work)
    seen = [recording.inputs(op.row) for op in ops_of(recording) if op.name == "aten::sin"]
    assert [TensorInput("float32", "meta", (2, 3), (3, 1))] in seen


def test_symbolic_sizes() -> None:
    shape_env = ShapeEnv()
    with FakeTensorMode(shape_env=shape_env):
        symbolic = torch.empty(shape_env.create_unbacked_symint(), 3)
        recording = recorded(lambda: torch.sin(symbolic))
    seen = [recording.inputs(op.row) for op in ops_of(recording) if op.name == "aten::sin"]
    assert [NestedTensorInput("float32", "meta", 2)] in seen


def test_long_lists_and_strings_are_cut() -> None:
    numbers = list(range(1000))

    @torch.library.custom_op("torchprof_tests::plain", mutates_args=())
    def plain(
        x: torch.Tensor, numbers: list[int], text: str, flags: list[bool], nothing: int | None
    ) -> torch.Tensor:
        return x.clone()

    inputs = inputs_in(lambda: plain(torch.ones(1), numbers, "x" * 1000, [], None), "torchprof_tests::plain")
    assert inputs == [
        float_tensor(1, strides=(1,)),
        InputList(tuple(range(64)), 1000),
        "x" * 256,
        InputList((), 0),
        None,
    ]


def test_more_than_the_bound_is_cut_at_an_argument() -> None:
    tensors = [torch.ones((1,) * 12) for _ in range(3000)]  # 28 bytes each
    recording = recorded(lambda: torch.cat(tensors, dim=0))
    inputs = inputs_of(recording, "aten::cat")
    assert inputs == []
    assert next(op.flags for op in ops_of(recording) if op.name == "aten::cat") & 8  # kFlagPayloadCut


def test_arguments_of_other_types_are_named() -> None:
    generator = torch.Generator()
    inputs = inputs_in(lambda: torch.ones(2).uniform_(generator=generator), "aten::uniform_")
    assert inputs == [float_tensor(2, strides=(1,)), 0.0, 1.0, OtherInput("Generator")]


def test_no_tensor_is_kept_alive() -> None:
    x = torch.ones(3)
    gone = weakref.ref(x)
    from otel_torchprof.recorder.capture import Capture
    from otel_torchprof.recorder.capture_options import CaptureOptions

    capture = Capture(options=CaptureOptions(record_shapes=True))
    capture.start()
    torch.stack([x, x]).sum()
    del x
    gc.collect()
    assert gone() is None
    recording = capture.stop()
    assert float_tensor(3, strides=(1,)) in [
        item
        for op in ops_of(recording)
        for value in recording.inputs(op.row) or []
        if isinstance(value, InputList)
        for item in value.items
    ]
